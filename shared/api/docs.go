package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// description is the introduction of the OpenAPI document.
const description = `Keeps your agents in their lanes.

Every answer carries X-Trace-Id: the caller's own, when it is one, or a new one; what was done stands at /api/v1/traces/{traceId}.
What is refused is answered as application/problem+json, whose code is for programs to decide on; refused values are never repeated, but for the name or id of what is not there.
Lists answer items and nextCursor. Bodies have 1 MiB and 1,000 fields at most, and no field that is not described here; the routes of chat and webhooks say theirs.`

//go:embed docs signin
var pages embed.FS

// asset is a file that is built for its first request and then served unchanged.
type asset struct {
	media string
	build func() (content, error)
}

// content is what an asset serves, and its ETag.
type content struct {
	bytes []byte
	tag   string
}

// documents holds the OpenAPI document, the page that shows it, and the sign-in page, which
// exchanges the token of a link for a session.
type documents struct{ json, yaml, page, script, style, signIn, signInScript asset }

// pagePolicy lets a page load resources of its own origin only, and no inline code.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// describe sets all documents. Those of the complete OpenAPI description take a tenth of a second to
// write, which no other request waits for.
func (d *documents) describe(o *huma.OpenAPI) {
	d.json = newAsset("application/json", func() ([]byte, error) { return json.MarshalIndent(o, "", "  ") })
	d.yaml = newAsset("application/yaml", o.YAML)
	for _, f := range []struct {
		to          *asset
		media, name string
	}{
		{&d.page, "text/html; charset=utf-8", "docs/index.html"},
		{&d.script, "text/javascript; charset=utf-8", "docs/docs.js"},
		{&d.style, "text/css; charset=utf-8", "docs/docs.css"},
		{&d.signIn, "text/html; charset=utf-8", "signin/index.html"},
		{&d.signInScript, "text/javascript; charset=utf-8", "signin/signin.js"},
	} {
		*f.to = newAsset(f.media, func() ([]byte, error) { return pages.ReadFile(f.name) })
	}
}

func newAsset(media string, write func() ([]byte, error)) asset {
	return asset{media, sync.OnceValues(func() (content, error) {
		written, err := write()
		if err != nil {
			return content{}, fmt.Errorf("write a document of %s: %w", media, err)
		}
		sum := sha256.Sum256(written)
		return content{written, `"` + hex.EncodeToString(sum[:8]) + `"`}, nil
	})}
}

// file serves an asset. The asset may still be empty when file is called: describe sets it after all
// routes are registered.
func file(of *asset) handler {
	return func(s *server, a huma.API, op huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK)}
		a.OpenAPI().AddOperation(&op)
		a.Adapter().Handle(&op, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			built, err := of.build()
			if err != nil {
				s.fail(w, r, err)
				return
			}
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Content-Security-Policy", pagePolicy)
			w.Header().Set("Content-Type", of.media)
			w.Header().Set("ETag", built.tag)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(built.bytes))
		})
	}
}
