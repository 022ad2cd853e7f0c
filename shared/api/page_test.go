package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
)

// paged reports whether the OpenAPI document has a cursor for a route.
func (c *contract) paged(r api.Route) bool {
	parameters, _ := c.at("paths", r.Path, strings.ToLower(r.Method), "parameters").([]any)
	names := ""
	for _, p := range parameters {
		names += fmt.Sprint(p.(map[string]any)["name"], " ")
	}
	return strings.Contains(names, "cursor limit ")
}

func TestCursorsThatAreNone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		id, routes := ids(), 0
		for _, route := range api.Routes() {
			if route.Method != http.MethodGet || !w.contract.paged(route) {
				continue
			}
			routes++
			for _, cursor := range []string{
				"!", "====", "AAA", encode("."), encode("1"), encode("." + id), encode("-1." + id), encode("9999999999999999999999." + id),
				encode("9223372036854775807." + id), encode("1.\x00"), encode("1.\xff"),
			} {
				path := right[route.ID].path + "?cursor=" + cursor
				got := w.call(t, http.MethodGet, path, owner, "")
				if none := right[route.ID].status == http.StatusNotFound; got.status != http.StatusUnprocessableEntity && !(none && got.status == http.StatusNotFound) {
					t.Errorf("%s: %d %s", path, got.status, got.body)
				}
			}
		}
		if routes < 15 {
			t.Errorf("only %d listings", routes)
		}
	})
}

// An id in a path has 36 characters, in upper or lower case. Any other text is refused before any
// query.
func TestIDsInPaths(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const id = "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"
		for _, route := range api.Routes() {
			ask := right[route.ID]
			if !strings.Contains(ask.path, id) {
				continue
			}
			for _, other := range []string{"%00", "urn:uuid:" + id, "%7B" + id + "%7D", strings.ReplaceAll(id, "-", ""), id + "'"} {
				if got := w.call(t, route.Method, strings.Replace(ask.path, id, other, 1), owner, ask.body); got.status >= http.StatusInternalServerError || got.status < http.StatusBadRequest {
					t.Errorf("%s of %s: %d %s", route.ID, other, got.status, got.body)
				}
			}
		}
		w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/skills/%00/run", `{}`)
		var o, m, waiting struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/objectives", `{"title":"Sell ice"}`, &o)
		w.must(t, 201, http.MethodPost, "/api/v1/memories", `{"category":"fact","content":"The shop opens at nine"}`, &m)
		waiting.ID = w.waits(t, "ada")
		for path, made := range map[string]string{"/api/v1/objectives/": o.ID, "/api/v1/memories/": m.ID, "/api/v1/approvals/": waiting.ID} {
			w.must(t, 200, http.MethodGet, path+strings.ToUpper(made), "", nil)
		}
	})
}

// A resource without a version has an ETag that is derived from its content.
func TestETagsOfThings(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		id := w.waits(t, "ada")
		var ran struct{ ExecutionID, TraceID string }
		w.must(t, 200, http.MethodPost, skillPath("look")+"/run", "", &ran)
		for _, path := range []string{"/api/v1/approvals/" + id, "/api/v1/executions/" + ran.ExecutionID, "/api/v1/traces/" + ran.TraceID} {
			first := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag")
			if again := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag"); len(first) != 34 || again != first {
				t.Errorf("%s: ETag %s, then %s", path, first, again)
			}
		}
		path := "/api/v1/approvals/" + id
		before := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag")
		w.must(t, 200, http.MethodPost, path+"/reject", `{"reason":"test"}`, nil)
		if after := w.must(t, 200, http.MethodGet, path, "", nil).header.Get("ETag"); after == before {
			t.Errorf("it has changed, and its ETag is still %s", after)
		}
		for _, r := range api.Routes() {
			headers := w.contract.at("paths", r.Path, strings.ToLower(r.Method), "responses", "200", "headers", "ETag")
			if r.Method == http.MethodGet && strings.HasSuffix(r.Path, "}") && headers == nil {
				t.Errorf("%s is described without an ETag", r.ID)
			}
		}
	})
}
