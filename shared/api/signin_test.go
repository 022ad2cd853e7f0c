package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// A link's token becomes a session, once; neither the log nor an answer has it.
func TestSigningInByALink(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := &gate{world: w}
		ada := g.join(t, w.Workspace, auth.Admin)
		w.Deps.Auth = auth.New(tokens(w.Workspace)).WithSessions(w.Sessions)
		handler, err := api.New(w.Deps)
		if err != nil {
			t.Fatal(err)
		}
		w.Handler = handler
		minted, err := w.Sessions.MintLink(t.Context(), ada.Email)
		if err != nil {
			t.Fatal(err)
		}
		link := minted.Reveal()

		page := w.call(t, http.MethodGet, "/sign-in", "", "")
		for _, asset := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(page.body, -1) {
			if got := w.call(t, http.MethodGet, "/"+string(asset[1]), "", ""); got.status != http.StatusOK {
				t.Errorf("the page needs %s: %d", asset[1], got.status)
			}
		}
		if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") || strings.Contains(policy, "unsafe") ||
			page.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the page comes with %v", page.header)
		}

		body := `{"token":"` + link + `"}`
		signed := w.call(t, http.MethodPost, "/api/v1/session", "", body)
		set, err := http.ParseSetCookie(signed.header.Get("Set-Cookie"))
		if signed.status != http.StatusOK || err != nil || !set.HttpOnly || set.SameSite != http.SameSiteStrictMode {
			t.Fatalf("signing in: %d %s, cookie %v, %v", signed.status, signed.body, set, err)
		}
		r := request(http.MethodGet, "/api/v1/me", "", "")
		r.AddCookie(set)
		var me struct{ Kind, ID, Email, Role, WorkspaceID string }
		if got := w.send(t, r); json.Unmarshal(got.body, &me) != nil || me.ID != ada.ID || me.Email != ada.Email || me.Role != "ADMIN" || me.WorkspaceID != string(w.Workspace) {
			t.Errorf("me: %d %s", got.status, got.body)
		}
		if again := w.call(t, http.MethodPost, "/api/v1/session", "", body); again.status != http.StatusUnauthorized || again.header.Get("Set-Cookie") != "" {
			t.Errorf("a second time: %d %s", again.status, again.body)
		}
		admin := w.call(t, http.MethodPost, "/api/v1/session", "", `{"token":"`+owner+`"}`)
		if admin.status != http.StatusOK || !strings.Contains(string(admin.body), `"kind":"local"`) {
			t.Errorf("by the admin token: %d %s", admin.status, admin.body)
		}
		if strings.Contains(w.logs.String(), link) || strings.Contains(w.logs.String(), set.Value) {
			t.Error("a token stands in the log")
		}
	})
}

func TestCreatingAWorkspace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada := g.join(t, w.Workspace, auth.Member)
		send := func(token, body string, headers ...string) result {
			t.Helper()
			r := request(http.MethodPost, "/api/v1/workspaces", token, body)
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			return g.send(t, r)
		}
		slug := "s" + strings.ReplaceAll(ids(), "-", "")
		body := `{"slug":"` + slug + `","name":"Ada's"}`
		token := jwt(ada.ID, nil)

		first := send(token, body, "Idempotency-Key", "k")
		var made struct {
			ID, Slug, Role string
			Settings       map[string]int64
		}
		if err := json.Unmarshal(first.body, &made); err != nil || first.status != http.StatusCreated || made.Slug != slug || made.Role != "OWNER" ||
			len(made.Settings) == 0 || first.header.Get("Location") != "/api/v1/workspaces/"+made.ID {
			t.Fatalf("%d %s", first.status, first.body)
		}
		again := send(token, body, "Idempotency-Key", "k", "X-Workspace-Id", string(w.Workspace))
		if again.header.Get("Idempotency-Replayed") != "true" || string(again.body) != string(first.body) {
			t.Errorf("sent again: %d %s", again.status, again.body)
		}

		// They are its owner, choose it by a header, and see their own and no other.
		r := request(http.MethodGet, "/api/v1/workspaces/"+made.ID, token, "")
		r.Header.Set("X-Workspace-Id", made.ID)
		if got := g.send(t, r); got.status != http.StatusOK || !strings.Contains(string(got.body), `"role":"OWNER"`) {
			t.Errorf("the new one: %d %s", got.status, got.body)
		}
		r = request(http.MethodGet, "/api/v1/workspaces", token, "")
		r.Header.Set("X-Workspace-Id", made.ID)
		var listed struct{ Items []struct{ ID, Role string } }
		if got := g.send(t, r); json.Unmarshal(got.body, &listed) != nil || len(listed.Items) != 2 {
			t.Errorf("the list: %s", got.body)
		}
		var one struct {
			Items      []struct{ ID string }
			NextCursor string
		}
		seen := map[string]bool{}
		for range 2 {
			r = request(http.MethodGet, "/api/v1/workspaces?limit=1&cursor="+one.NextCursor, token, "")
			r.Header.Set("X-Workspace-Id", made.ID)
			one.NextCursor = ""
			if got := g.send(t, r); json.Unmarshal(got.body, &one) != nil || len(one.Items) != 1 {
				t.Fatalf("a page: %s", got.body)
			}
			seen[one.Items[0].ID] = true
		}
		if len(seen) != 2 || one.NextCursor != "" {
			t.Errorf("the pages: %v, then %q", seen, one.NextCursor)
		}
		for _, of := range listed.Items {
			if role := map[string]string{made.ID: "OWNER", string(w.Workspace): "MEMBER"}[of.ID]; of.Role != role {
				t.Errorf("in %s they are %s, not %q", of.ID, of.Role, role)
			}
		}
		if got := g.call(t, http.MethodGet, "/api/v1/workspaces", owner, ""); strings.Contains(string(got.body), made.ID) {
			t.Errorf("another sees it: %s", got.body)
		}

		// What is refused leaves nothing behind.
		_, key := g.key(t, auth.Principal{Kind: auth.Local, ID: "admin", Role: auth.Owner}, auth.APIKey{Kind: auth.APIKind, Role: auth.Owner, Scopes: []auth.Scope{"*"}})
		other := `{"slug":"` + slug + `2","name":"x"`
		for name, c := range map[string]struct {
			token, body string
			status      int
			says        string
		}{
			"a slug that is taken":             {owner, `{"slug":"` + slug + `","name":"x","owner":"a@b.example"}`, 409, "taken"},
			"no slug":                          {owner, `{"slug":"Ä","name":"x","owner":"a@b.example"}`, 422, "body.slug"},
			"the local admin without an owner": {owner, other + `}`, 422, "body.owner"},
			"an owner that is no address":      {owner, other + `,"owner":"b"}`, 422, "body.owner"},
			"a key":                            {key, other + `}`, 403, "no key may do it"},
			"a stranger":                       {"", other + `}`, 401, ""},
			"the local admin with an owner":    {owner, `{"slug":"` + slug + `3","name":"x","owner":"` + ada.Email + `"}`, 201, ""},
		} {
			if got := send(c.token, c.body); got.status != c.status || !strings.Contains(string(got.body), c.says) {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if got := send(owner, other+`,"owner":"a@b.example"}`); got.status != http.StatusCreated {
			t.Errorf("after the refusals: %d %s", got.status, got.body)
		}
	})
}

// Nobody fills an installation with workspaces.
func TestAPersonOfManyWorkspacesMakesNoMore(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		d.Auth = auth.New(func(context.Context, string) (auth.Principal, error) {
			return auth.Principal{Workspace: "w", Kind: auth.User, ID: "u", Email: "a@b.example", Role: auth.Owner, Memberships: make([]auth.Membership, 100)}, nil
		})
	})
	w.refused(t, http.StatusConflict, "full", http.MethodPost, "/api/v1/workspaces", `{"slug":"x","name":"x"}`)
}
