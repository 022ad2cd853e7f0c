package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
)

// TestEveryBodyIsHeldToTheLimits walks the route table: whatever takes a body refuses
// what is too large, too deep or no text of ours, and names given twice or in another
// case.
func TestEveryBodyIsHeldToTheLimits(t *testing.T) {
	w := onOne(t)
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	common := []struct {
		name, body string
		status     int
		code       string
	}{
		{"a byte too large", strings.Repeat(" ", api.MaxBody+1), 413, "too_large"},
		{"33 levels below the body", `{"x":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`, 422, "invalid"},
		{"100,000 levels", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 400, "malformed"},
		{"20,000 unknown names", "{" + many.String()[1:] + "}", 422, "invalid"},
		{"20,000 times the same name", "{" + strings.Repeat(`"x":1,`, 20_000) + `"x":1}`, 422, "invalid"},
		{"raw NUL", "{\"x\":\"\x00\"}", 422, "invalid"},
		{"escaped NUL", `{"x":"\u0000"}`, 422, "invalid"},
		{"NUL in a name", `{"\u0000":1}`, 422, "invalid"},
		{"invalid UTF-8", "{\"x\":\"\xff\"}", 422, "invalid"},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", 422, "invalid"},
		{"huge number", `{"x":1e999}`, 422, "invalid"},
		{"unknown name", `{"x":1}`, 422, "invalid"},
		{"no object", `[]`, 422, "invalid"},
		{"no JSON", `{"x":`, 400, "malformed"},
		{"two values", `{}{}`, 400, "malformed"},
	}
	routes, fields := 0, 0
	for _, route := range api.Routes() {
		if route.Method != http.MethodPost && route.Method != http.MethodPut && route.Method != http.MethodPatch {
			continue
		}
		if route.Front { // its messages are another protocol's, and its tools' arguments are held to the limits by the routes behind it
			continue
		}
		routes++
		path := right[route.ID].path
		for _, c := range common {
			p := w.refused(t, c.status, c.code, route.Method, path, c.body)
			if len(p.Errors) > 32 || c.status == 422 && len(p.Errors) == 0 {
				t.Errorf("%s, %s: it names %d errors", route.ID, c.name, len(p.Errors))
			}
			if t.Failed() {
				t.Fatalf("%s: %s", route.ID, c.name)
			}
		}
		for _, name := range w.contract.fields(route) {
			fields++
			other := strings.ToUpper(name[:1]) + name[1:]
			for body, at := range map[string]string{
				fmt.Sprintf(`{%q:null,%q:null}`, name, name):  "body." + name, // twice
				fmt.Sprintf(`{%q:null}`, other):               "body." + other,
				fmt.Sprintf(`{%q:null,%q:null}`, name, other): "body." + other,
			} {
				if p := w.refused(t, 422, "invalid", route.Method, path, body); !p.at(at) {
					t.Errorf("%s: %s is not named for %s: %+v", route.ID, at, body, p.Errors)
				}
			}
		}
	}
	t.Logf("%d routes, %d fields", routes, fields)
	if routes < 35 || fields < 60 {
		t.Errorf("only %d routes and %d fields", routes, fields)
	}
}
