package engineroom_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/engineroom"
)

func get(t *testing.T, method, path string, head ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	engineroom.Handler{}.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var loaded = regexp.MustCompile(`(?:src|href)="([^"#]+)"`)

// Each address has the same page, whose files are found from wherever it stands.
func TestEachAddressOfThePageLoadsItsFiles(t *testing.T) {
	for path, base := range map[string]string{
		"/engine/overview": "../", "/engine/traces/hb_1": "../../", "/engine/lanes/task%3A1": "../../", "/engine/no/such/page": "../../../",
	} {
		page := get(t, http.MethodGet, path)
		body := text(t, page.Body)
		if page.StatusCode != http.StatusOK || !strings.Contains(body, `name="lk-base" content="`+base+`"`) {
			t.Errorf("%s: %d, and its base is not %s", path, page.StatusCode, base)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		} {
			if got := page.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(body, "style=") || strings.Contains(body, "<style") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(body) {
			t.Errorf("%s holds what its policy forbids", path)
		}
		files := loaded.FindAllStringSubmatch(body, -1)
		if len(files) < 3 {
			t.Fatalf("%s loads %q", path, files)
		}
		for _, f := range files {
			at := httptest.NewRequest(http.MethodGet, path, nil).URL.ResolveReference(httptest.NewRequest(http.MethodGet, path, nil).URL)
			at, err := at.Parse(f[1])
			if err != nil {
				t.Fatal(err)
			}
			zipped := get(t, http.MethodGet, at.Path, "Accept-Encoding", "gzip, br")
			plain := get(t, http.MethodGet, at.Path)
			if zipped.StatusCode != http.StatusOK || zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" ||
				!strings.Contains(zipped.Header.Get("Cache-Control"), "immutable") || plain.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: %d %v, %v", at.Path, zipped.StatusCode, zipped.Header, plain.Header)
				continue
			}
			z, err := gzip.NewReader(zipped.Body)
			if err != nil {
				t.Fatal(err)
			}
			if text(t, z) != text(t, plain.Body) {
				t.Errorf("%s differs when it is compressed", at.Path)
			}
		}
		if again := get(t, http.MethodGet, path, "If-None-Match", page.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
	}
}

func TestWhatThePageRefuses(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		location     string
	}{
		{"GET", "/engine", 302, "engine/overview"},
		{"GET", "/engine/", 302, "overview"},
		{"POST", "/engine/overview", 405, ""},
		{"GET", "/engine/assets/none.js", 404, ""},
		{"GET", "/engine/assets/../index.html", 404, ""},
		{"HEAD", "/engine/overview", 200, ""},
	} {
		got := get(t, c.method, c.path)
		if got.StatusCode != c.status || got.Header.Get("Location") != c.location {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, got.StatusCode, got.Header.Get("Location"), c.status, c.location)
		}
	}
}
