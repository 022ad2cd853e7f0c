package api_test

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/auth"
)

type siteKey struct {
	ID, Key, Name, Prefix, Persona string
	Origins                        []string
	RevokedAt                      string
}

// TestSiteKeysByHTTP creates, lists, changes and revokes one. The key is shown once.
func TestSiteKeysByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		keys, err := auth.NewStore(w.DB, ids, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		var made, found siteKey
		got := w.must(t, 201, http.MethodPost, "/api/v1/site-keys", `{"name":"shop","origins":["https://shop.example"]}`, &made)
		at := got.header.Get("Location")
		if at != "/api/v1/site-keys/"+made.ID || !strings.HasPrefix(made.Key, made.Prefix) || !strings.HasPrefix(made.Key, "lks_") || made.Persona != "visitor_chat" {
			t.Errorf("%s: %s", at, got.body)
		}
		if in := w.recorded(t, "site_key.create"); in["id"] != made.ID || in["name"] != "shop" || in["persona"] != "visitor_chat" {
			t.Errorf("recorded is %v", in)
		}
		if p, err := keys.VerifyKey(t.Context(), made.Key); err != nil || p.Kind != auth.Site || p.Persona != "visitor_chat" {
			t.Errorf("it is %+v, %v", p, err)
		}
		if got := w.must(t, 200, http.MethodGet, at, "", &found); found.ID != made.ID || strings.Contains(string(got.body), made.Key) || strings.Contains(string(got.body), `"key"`) {
			t.Errorf("found %s", got.body)
		}
		var listed, all struct{ Items []siteKey }
		w.must(t, 201, http.MethodPost, "/api/v1/api-keys", `{"name":"ci","role":"MEMBER","scopes":["*"]}`, nil)
		got = w.must(t, 200, http.MethodGet, "/api/v1/site-keys", "", &listed)
		if len(listed.Items) != 1 || listed.Items[0].ID != made.ID || strings.Contains(string(got.body), made.Key) {
			t.Errorf("listed is %s", got.body)
		}
		w.must(t, 200, http.MethodGet, "/api/v1/api-keys", "", &all)
		if len(all.Items) != 2 || all.Items[1].Persona != "visitor_chat" || all.Items[0].Persona != "" {
			t.Errorf("the keys of all kinds are %+v", all.Items)
		}

		w.must(t, 200, http.MethodPut, "/api/v1/personas/shop_helper", `{"instructions":"Sell ice."}`, nil)
		got = w.must(t, 200, http.MethodPatch, at, `{"origins":["https://www.shop.example"],"persona":"shop_helper"}`, &found)
		if found.Name != "shop" || !slices.Equal(found.Origins, []string{"https://www.shop.example"}) || found.Persona != "shop_helper" {
			t.Errorf("changed it is %s", got.body)
		}
		if in := w.recorded(t, "site_key.update"); in["id"] != made.ID || in["persona"] != "shop_helper" {
			t.Errorf("recorded is %v", in)
		}
		w.must(t, 204, http.MethodDelete, at, "", nil)
		if in := w.recorded(t, "site_key.revoke"); in["id"] != made.ID {
			t.Errorf("recorded is %v", in)
		}
		if w.must(t, 200, http.MethodGet, at, "", &found); found.RevokedAt == "" {
			t.Error("it is not revoked")
		}
		if _, err := keys.VerifyKey(t.Context(), made.Key); err == nil {
			t.Error("revoked it opens")
		}
	})
}

func TestWhatIsWrongWithASiteKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made, program struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/site-keys", `{"name":"shop","origins":["https://shop.example"]}`, &made)
		w.must(t, 201, http.MethodPost, "/api/v1/site-keys", `{"name":"of any page"}`, nil)
		for body, at := range map[string]string{
			`{"name":"x","origins":["*"]}`:                                    "body.origins",
			`{"name":"x","origins":["https://a.b/"]}`:                         "body.origins",
			`{"origins":["https://a.b"]}`:                                     "body",
			`{"name":"x","origins":["https://a.b"],"persona":"nobody"}`:       "body.persona",
			`{"name":"x","origins":["https://a.b"],"persona":"flowpilot"}`:    "body.persona",
			`{"name":"x","origins":["https://a.b"],"scopes":["*"]}`:           "body.scopes",
			`{"name":"x","origins":["https://a.b"],"persona":"ha\u0000"}`:     "body.persona",
			`{"name":"x","origins":["https://a.b"],"persona":"VISITOR_CHAT"}`: "body.persona",
			`{"name":"x","origins":["https://a.b"],"expiresAt":"2030-01-01"}`: "body.expiresAt",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/site-keys", body); !p.at(at) {
				t.Errorf("%s: %+v", body, p)
			}
		}
		for body, at := range map[string]string{
			`{"origins":["null"]}`: "body.origins", `{"persona":"nobody"}`: "body.persona", `{"name":""}`: "body.name", `{"key":"x"}`: "body.key",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPatch, "/api/v1/site-keys/"+made.ID, body); !p.at(at) {
				t.Errorf("%s: %+v", body, p)
			}
		}
		w.must(t, 201, http.MethodPost, "/api/v1/api-keys", `{"name":"ci","role":"MEMBER","scopes":["*"]}`, &program)
		w.refused(t, 404, "not_found", http.MethodGet, "/api/v1/site-keys/"+program.ID, "")
		w.refused(t, 404, "not_found", http.MethodPatch, "/api/v1/site-keys/"+program.ID, `{"name":"x"}`)
		w.refused(t, 404, "not_found", http.MethodDelete, "/api/v1/site-keys/"+program.ID, "")
	})
}
