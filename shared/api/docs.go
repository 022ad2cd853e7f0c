package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// description is the introduction of the OpenAPI document.
const description = `Keeps your agents in their lanes.

Every answer carries X-Trace-Id: the caller's own, when it is one, or a new one; what was done stands at /api/v1/traces/{traceId}.
What is refused is answered as application/problem+json, whose code is for programs to decide on; refused values are never repeated, but for the name or id of what is not there.
Lists answer items and nextCursor. Bodies have 1 MiB and 1,000 fields at most, and no field that is not described here.`

//go:embed docs signin
var pages embed.FS

// asset is a file that is built once and served unchanged.
type asset struct {
	media   string
	content []byte
	tag     string
}

// documents holds the OpenAPI document, the page that shows it, and the sign-in page, which
// exchanges the token of a link for a session.
type documents struct{ json, yaml, page, script, style, signIn, signInScript asset }

// pagePolicy lets a page load resources of its own origin only, and no inline code.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// describe builds all documents from the complete OpenAPI description.
func (d *documents) describe(o *huma.OpenAPI) error {
	asJSON, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	asYAML, err := o.YAML()
	if err != nil {
		return err
	}
	d.json = newAsset("application/json", asJSON)
	d.yaml = newAsset("application/yaml", asYAML)
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
		content, err := pages.ReadFile(f.name)
		if err != nil {
			return err
		}
		*f.to = newAsset(f.media, content)
	}
	return nil
}

func newAsset(media string, content []byte) asset {
	sum := sha256.Sum256(content)
	return asset{media, content, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// file serves an asset. The asset may still be empty when file is called: describe fills it after
// all routes are registered.
func file(of *asset) handler {
	return func(_ *server, a huma.API, op huma.Operation) {
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK)}
		a.OpenAPI().AddOperation(&op)
		a.Adapter().Handle(&op, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Content-Security-Policy", pagePolicy)
			w.Header().Set("Content-Type", of.media)
			w.Header().Set("ETag", of.tag)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(of.content))
		})
	}
}
