package remote_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// asked is a client that records the requested URLs.
type asked struct{ urls []*url.URL }

func (a *asked) DoOnce(r *http.Request) (*http.Response, error) {
	a.urls = append(a.urls, r.URL)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

// nasty are texts that have caused a path traversal before.
var nasty = []string{
	"..", ".", "/", "//", "\\", "?", "#", "&", "=", ";", "@", ":", "%", "%2e", "%2E%2e", "%2f", "%5c", "%00", "{id}", "a b", "+", "é", "\u202e", "..;", "localhost",
	"ä", "^|<>\"`", "http://evil.example/", "@evil.example", ":8080", "\t", "\r\n", "\u0000", "‥", "．", "／",
}

// Arguments stay in their places, whatever they are. The host and all other segments and parameters
// are the template's, and the server reads the given values.
func TestNoArgumentLeavesItsPlace(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom(nasty), rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(nasty), 1, 4).Draw(t, "parts"), "")
	}))
	rapid.Check(t, func(t *rapid.T) {
		id, q, more := text.Draw(t, "id"), text.Draw(t, "q"), text.Draw(t, "more")
		method := rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method")
		client := &asked{}
		k, err := register(outbound(client), `{"url":"https://a.example:8443/v1/{id}/x-{id}.json/end?fixed=1&q={q}&last=2","method":"`+method+`"}`, "id", "q")
		if err != nil {
			t.Fatal(err)
		}
		arguments, _ := json.Marshal(map[string]string{"id": id, "q": q, "more": more})
		var kept map[string]string // without invalid UTF-8
		if err := json.Unmarshal(arguments, &kept); err != nil {
			t.Fatal(err)
		}
		id, q, more = kept["id"], kept["q"], kept["more"]
		if _, err := k.Do(t.Context(), skill.Call{Arguments: arguments}); err != nil {
			if skill.ClassOf(err) != skill.Input || len(client.urls) > 0 {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		u := client.urls[0]
		if u.Scheme != "https" || u.Host != "a.example:8443" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("%q leads to %s", id, u)
		}
		segments := strings.Split(u.EscapedPath(), "/")
		if len(segments) != 5 {
			t.Fatalf("%q makes %d segments: %s", id, len(segments), u)
		}
		for i, want := range []string{"", "v1", id, "x-" + id + ".json", "end"} {
			if got, err := url.PathUnescape(segments[i]); err != nil || got != want {
				t.Fatalf("%q: segment %d is %q (%v)", id, i, segments[i], err)
			}
		}
		if strings.ContainsAny(segments[2], `/\;?#`) {
			t.Fatalf("%q is not escaped: %s", id, u)
		}
		again := u.Path // a server that unescapes more than once finds no step either
		for range 4 {
			for _, step := range strings.FieldsFunc(again, func(r rune) bool { return strings.ContainsRune(`/\;`, r) }) {
				if step == "." || step == ".." {
					t.Fatalf("%q climbs: %s", id, u)
				}
			}
			next, err := url.PathUnescape(again)
			if err != nil {
				break
			}
			again = next
		}
		query, err := url.ParseQuery(u.RawQuery)
		want := url.Values{"fixed": {"1"}, "q": {q}, "last": {"2"}}
		if method == "GET" {
			want["more"] = []string{more}
		}
		if err != nil || query.Encode() != want.Encode() {
			t.Fatalf("%q: the query is %s (%v)", q, u.RawQuery, err)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"https://a.example/{id}", "https://a.example{id}", "http://a/?{id}={id}", "https://{id}", "https://a.example/%2{id}", "https://a@b/{id}", "https://a.example/ä/{id}", "https://a.example/|/{id}", "https://[::1]/{id}#",
	} {
		f.Add(seed, "x/../y")
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		client := &asked{}
		config, _ := json.Marshal(map[string]string{"url": template})
		k, err := register(outbound(client), string(config), "id")
		if err != nil {
			return
		}
		send := func(value string) *url.URL {
			arguments, _ := json.Marshal(map[string]string{"id": value})
			client.urls = nil
			if _, err := k.Do(t.Context(), skill.Call{Arguments: arguments}); err != nil {
				return nil
			}
			return client.urls[0]
		}
		plain, filled := send("x"), send(value)
		if plain == nil {
			t.Fatalf("%q was registered, and can't be called", template)
		}
		if filled == nil {
			return
		}
		if filled.Scheme != plain.Scheme || filled.Host != plain.Host || filled.User != nil || filled.Fragment != "" ||
			strings.Count(filled.EscapedPath(), "/") != strings.Count(plain.EscapedPath(), "/") || strings.Count(filled.RawQuery, "&") != strings.Count(plain.RawQuery, "&") {
			t.Fatalf("%q with %q leads to %s", template, value, filled)
		}
	})
}
