package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestPersonas(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e)
		type item struct {
			Name, DisplayName, Instructions, Language, CreatedBy string
			Version                                              int
			Skills                                               *[]string
			Surfaces                                             []string
		}
		var list struct {
			Items      []item
			NextCursor *string
		}
		w.must(t, 200, http.MethodGet, "/api/v1/personas", "", &list)
		if len(list.Items) != 2 || list.Items[0].Name != "flowpilot" || list.Items[1].Name != "visitor_chat" || list.Items[0].Version != 0 {
			t.Errorf("at first there are %+v", list.Items)
		}
		var p item
		got := w.must(t, 200, http.MethodPut, "/api/v1/personas/flowpilot", `{"instructions":"Be brief.","language":"de","skills":[]}`, &p)
		if p.Version != 1 || p.DisplayName != "Flowpilot" || p.Skills == nil || len(*p.Skills) != 0 || p.CreatedBy == "" || got.header.Get("ETag") != `"1"` {
			t.Errorf("stored is %+v, with the tag %s", p, got.header.Get("ETag"))
		}
		w.must(t, 200, http.MethodGet, "/api/v1/personas/flowpilot", "", &p)
		if p.Instructions != "Be brief." || p.Language != "de" || strings.Join(p.Surfaces, " ") != "operate heartbeat" {
			t.Errorf("read is %+v", p)
		}
		with := func(tag, body string) int {
			r := request(http.MethodPut, "/api/v1/personas/flowpilot", owner, body)
			r.Header.Set("If-Match", tag)
			return w.send(t, r).status
		}
		if stale, fresh := with(`"0"`, `{}`), with(`"1"`, `{"language":"en"}`); stale != 412 || fresh != 200 {
			t.Errorf("a change of version 0 answers %d, of version 1 %d", stale, fresh)
		}
		for _, tag := range []string{`"0"`, "*"} { // as an agent's registration does
			if got := w.callWith(t, http.MethodPut, "/api/v1/personas/nobody", owner, `{}`, "If-Match", tag); got.status != 412 {
				t.Errorf("a change of a persona that does not exist, If-Match %s: %d %s", tag, got.status, got.body)
			}
		}
		w.must(t, 200, http.MethodGet, "/api/v1/personas/flowpilot/versions?limit=2", "", &list)
		if len(list.Items) != 2 || list.Items[0].Version != 2 || list.NextCursor == nil {
			t.Fatalf("its newest versions are %+v", list)
		}
		w.must(t, 200, http.MethodGet, "/api/v1/personas/flowpilot/versions?limit=2&cursor="+*list.NextCursor, "", &list)
		if len(list.Items) != 1 || list.Items[0].Version != 0 || list.NextCursor != nil {
			t.Errorf("its oldest versions are %+v", list)
		}
		w.must(t, 200, http.MethodPut, "/api/v1/personas/shop", `{"displayName":"Mia"}`, &p)
		if w.must(t, 200, http.MethodGet, "/api/v1/personas?limit=2", "", &list); len(list.Items) != 2 || list.Items[1].Name != "shop" || list.NextCursor == nil {
			t.Errorf("the first page is %+v", list)
		}
		w.must(t, 404, http.MethodGet, "/api/v1/personas/nobody", "", nil)
		w.must(t, 404, http.MethodGet, "/api/v1/personas/nobody/versions", "", nil)
		for field, body := range map[string]string{
			"body.timeZone": `{"timeZone":"Mars/Olympus"}`, "body.outputCheck": `{"outputCheck":"a b"}`, "body.surfaces": `{"surfaces":["operate"]}`, "body.skills": `{"skills":["a b"]}`,
			"body.instructions": `{"instructions":"` + strings.Repeat("ü", 9000) + `"}`, "body.temperature": `{"temperature":3}`, "body.color": `{"color":"red"}`,
		} {
			if got := w.must(t, 422, http.MethodPut, "/api/v1/personas/shop", body, nil); !strings.Contains(string(got.body), `"`+field) {
				t.Errorf("%s: %s", field, got.body)
			}
		}
		got = w.must(t, 422, http.MethodPut, "/api/v1/personas/shop", `{"outputCheck":"overlook_it"}`, nil)
		if body := string(got.body); !strings.Contains(body, `"body.outputCheck"`) || strings.Contains(body, "overlook_it") {
			t.Errorf("an output check that does not exist, which would hold every answer: %s", body)
		}
		got = w.must(t, 422, http.MethodPut, "/api/v1/personas/shop", `{"skills":["look","overlook_it"]}`, nil)
		if body := string(got.body); !strings.Contains(body, `"body.skills[1]"`) || strings.Contains(body, "[0]") || strings.Contains(body, "overlook_it") {
			t.Errorf("a name that no skill has: %s", body)
		}
		w.must(t, 200, http.MethodPut, "/api/v1/personas/shop", `{"skills":["look"]}`, &p)
	})
}
