// Package engineroom serves the Engine Room: the page that answers what the agent does right now, and
// whether it works. Its source is in web, built with Vite to dist, which is embedded. `make web` builds
// it; a test compares dist with what its source builds.
//
// The files are the same for everybody and hold no data: the page asks the API, which knows who asks.
package engineroom

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Prefix is the path below which the page is served, also below the path of a stage.
const Prefix = "/engine/"

// Home is the page that the root leads to, relative to the root.
const Home = "engine/overview"

// assets is the folder of files whose names hold a checksum of their content.
const assets = Prefix + "assets/"

// policy lets the page load what comes from its own origin, and nothing written into it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed all:dist
var built embed.FS

// index returns the built page. It is read once.
var index = sync.OnceValue(func() []byte {
	text, err := built.ReadFile("dist/index.html")
	if err != nil { // the build embeds it
		return []byte("<!doctype html><title>Lanekeeper</title><p>The Engine Room was not built: run make web.</p>")
	}
	return text
})

// Serves reports whether [Handler] serves a path.
func Serves(p string) bool {
	return strings.HasPrefix(p, Prefix) || p == strings.TrimSuffix(Prefix, "/")
}

// Handler serves the page to everyone.
type Handler struct{}

// ServeHTTP implements [http.Handler].
func (Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	id, _ := trace.From(r.Context())
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "this path is asked with GET").
			With("Allow", "GET, HEAD").Write(w, id)
	case r.URL.Path == strings.TrimSuffix(Prefix, "/"):
		redirect(w, Home)
	case r.URL.Path == Prefix:
		redirect(w, path.Base(Home))
	case strings.HasPrefix(r.URL.Path, assets):
		if !serveAsset(w, r, strings.TrimPrefix(r.URL.Path, Prefix)) {
			problem.New(http.StatusNotFound, "not_found", "there is no such file").Write(w, id)
		}
	default:
		servePage(w, r)
	}
}

// redirect leads to a page. The location is relative, so that it also works below the path of a stage.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

// servePage answers each address of the page with the same text; its script reads the address. Only
// the way back to the root differs: it is relative, since a stage or a proxy may stand before it.
func servePage(w http.ResponseWriter, r *http.Request) {
	depth := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), Prefix), "/")
	up := strings.Repeat("../", depth)
	text := bytes.ReplaceAll(index(), []byte(`"./assets/`), []byte(`"`+up+`assets/`))
	text = bytes.Replace(text, []byte(`name="lk-base" content=""`), fmt.Appendf(nil, `name="lk-base" content="%s../"`, up), 1)
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", policy)
	head.Set("Cache-Control", "no-cache")
	sum := sha256.Sum256(text)
	head.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// media are the types of the built files, by the ends of their names.
var media = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// serveAsset serves a file whose name changes with its content. It reports false if there is none.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) bool {
	kind, known := media[path.Ext(name)]
	zipped, err := fs.ReadFile(built, "dist/"+name+".gz")
	if !known || err != nil {
		return false
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Cache-Control", "public, max-age=31536000, immutable")
	head.Set("Vary", "Accept-Encoding")
	content := zipped
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
	} else if content, err = unzip(zipped); err != nil {
		return false
	}
	r.Header.Del("Range") // parts of so little are of no use
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return true
}

func unzip(zipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
