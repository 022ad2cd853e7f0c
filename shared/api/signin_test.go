package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

// linked lets people sign in by links. It returns an admin of the workspace, and the token of her link.
func (w *world) linked(t *testing.T) (ada auth.Person, link string) {
	t.Helper()
	if err := w.Workspaces.EnsureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	ada = (&gate{world: w}).join(t, w.Workspace, auth.Admin)
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
	return ada, minted.Reveal()
}

// The token of a link starts one session. It appears neither in the log nor in a response.
func TestSigningInByALink(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada, link := w.linked(t)

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
		// An idempotency key has no effect here: its stored response would contain the cookie.
		for _, signed := range []string{"", owner} {
			for range 2 {
				r := request(http.MethodPost, "/api/v1/session", signed, `{"token":"`+owner+`"}`)
				r.Header.Set("Idempotency-Key", "k")
				if got := w.send(t, r); got.status != http.StatusOK || got.header.Get("Set-Cookie") == "" {
					t.Errorf("with a key: %d %s, %v", got.status, got.body, got.header)
				}
			}
		}
		if p := w.contract.at("paths", "/api/v1/session", "post", "parameters"); p != nil {
			t.Errorf("it takes %v", p)
		}
		if strings.Contains(w.logs.String(), link) || strings.Contains(w.logs.String(), set.Value) {
			t.Error("a token stands in the log")
		}
	})
}

// Signing out also invalidates copies of a cookie, whether the person or an owner does it.
func TestSigningOutEndsTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada := g.join(t, w.Workspace, auth.Member)
		var session http.Header
		use := func(site, method, path string, want int) {
			t.Helper()
			r := request(method, path, "", "")
			r.Header.Set("Cookie", session.Get("Cookie"))
			r.Header.Set("Sec-Fetch-Site", site)
			if got := g.send(t, r); got.status != want {
				t.Errorf("%s %s from %s: %d, want %d: %s", method, path, site, got.status, want, got.body)
			}
		}
		session = cookie(t, g.Sessions, auth.Principal{Kind: auth.User, ID: ada.ID})
		use("same-origin", http.MethodGet, "/api/v1/me", 200)
		use("cross-site", http.MethodDelete, "/api/v1/session", 204)
		use("same-origin", http.MethodGet, "/api/v1/me", 200)
		use("same-origin", http.MethodDelete, "/api/v1/session", 204)
		use("same-origin", http.MethodGet, "/api/v1/me", 401)

		session = cookie(t, g.Sessions, auth.Principal{Kind: auth.User, ID: ada.ID})
		use("same-origin", http.MethodGet, "/api/v1/me", 200)
		use("same-origin", http.MethodPost, "/api/v1/members/"+ada.ID+"/sign-out", 403)
		g.must(t, 200, http.MethodPost, "/api/v1/members/"+ada.ID+"/sign-out", `{}`, nil)
		use("same-origin", http.MethodGet, "/api/v1/me", 401)
	})
}

func TestCreatingAWorkspace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada, victim := g.join(t, w.Workspace, auth.Admin), g.join(t, w.Workspace, auth.Member)
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

		// The creator is the owner of the new workspace when the path names it, can select it by
		// a header, and sees only the workspaces that they belong to.
		if got := g.call(t, http.MethodGet, first.header.Get("Location"), token, ""); got.status != http.StatusOK || !strings.Contains(string(got.body), `"role":"OWNER"`) {
			t.Errorf("the new one: %d %s", got.status, got.body)
		}
		if got := g.call(t, http.MethodPatch, first.header.Get("Location"), token, `{"name":"Ours"}`); got.status != http.StatusOK {
			t.Errorf("renamed: %d %s", got.status, got.body)
		}
		if got := g.call(t, http.MethodPatch, "/api/v1/workspaces/"+string(w.Workspace), jwt(victim.ID, nil), `{"name":"Ours"}`); got.status != http.StatusForbidden {
			t.Errorf("renamed as a member: %d %s", got.status, got.body)
		}
		if got := g.call(t, http.MethodGet, first.header.Get("Location"), jwt(victim.ID, nil), ""); got.status != http.StatusNotFound {
			t.Errorf("by who does not belong: %d %s", got.status, got.body)
		}
		var me struct {
			WorkspaceID string
			Memberships []struct{ WorkspaceID, Role string }
		}
		if got := g.call(t, http.MethodGet, "/api/v1/me", token, ""); json.Unmarshal(got.body, &me) != nil || me.WorkspaceID != string(w.Workspace) ||
			len(me.Memberships) != 2 || me.Memberships[1].WorkspaceID != made.ID || me.Memberships[1].Role != "OWNER" {
			t.Errorf("they are %s", got.body)
		}
		r := request(http.MethodGet, "/api/v1/workspaces", token, "")
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
			if role := map[string]string{made.ID: "OWNER", string(w.Workspace): "ADMIN"}[of.ID]; of.Role != role {
				t.Errorf("in %s they are %s, not %q", of.ID, of.Role, role)
			}
		}
		if got := g.call(t, http.MethodGet, "/api/v1/workspaces", owner, ""); strings.Contains(string(got.body), made.ID) {
			t.Errorf("another sees it: %s", got.body)
		}

		// A refused request leaves no rows.
		_, key := g.key(t, auth.Principal{Kind: auth.Local, ID: "admin", Role: auth.Owner}, auth.APIKey{Kind: auth.APIKind, Role: auth.Owner, Scopes: []auth.Scope{"*"}})
		other := `{"slug":"` + slug + `2","name":"x"`
		for name, c := range map[string]struct {
			token, body string
			status      int
			says        string
		}{
			"a slug that is taken":             {owner, `{"slug":"` + slug + `","name":"x","owner":"a@b.example"}`, 409, "taken"},
			"no slug":                          {owner, `{"slug":"Ä","name":"x","owner":"a@b.example"}`, 422, "body.slug"},
			"the local admin without an owner": {owner, other + `}`, 422, `"message":"expected an e-mail address: the local admin names the owner"`},
			"an owner that is no address":      {owner, other + `,"owner":"b"}`, 422, "body.owner"},
			"a key":                            {key, other + `}`, 403, "no key may do it"},
			"a member":                         {jwt(victim.ID, nil), other + `}`, 403, "ADMIN"},
			"a stranger":                       {"", other + `}`, 401, ""},
			"a person with another owner":      {token, other + `,"owner":"` + victim.Email + `"}`, 422, "body.owner"},
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

// One person cannot create an unlimited number of workspaces, nor use up the limit of another
// person.
func TestAPersonWhoHasMadeManyWorkspacesMakesNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada, bob := g.join(t, w.Workspace, auth.Admin), g.join(t, w.Workspace, auth.Admin)
		for range 100 {
			ws := db.Workspace(ids())
			err := g.Env.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
				_, err := g.Workspaces.Create(ctx, tx, "s"+strings.ReplaceAll(ids(), "-", ""), "x", "user:"+ada.ID)
				if err == nil {
					_, err = g.People.AddMember(ctx, tx, bob.Email, "", auth.Owner, auth.Principal{Kind: auth.User, ID: ada.ID})
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for p, want := range map[string]int{ada.ID: http.StatusConflict, bob.ID: http.StatusCreated} {
			body := `{"slug":"s` + strings.ReplaceAll(ids(), "-", "") + `","name":"x"}`
			if got := g.call(t, http.MethodPost, "/api/v1/workspaces", jwt(p, nil), body); got.status != want {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
	})
}

// A session continues in the workspace that its person chooses.
func TestChoosingAWorkspace(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		g := newGate(t, w.Env)
		ada := g.join(t, w.Workspace, auth.Admin)
		session := cookie(t, g.Sessions, auth.Principal{Kind: auth.User, ID: ada.ID}, "Sec-Fetch-Site", "same-origin")
		send := func(method, path, body string) result {
			t.Helper()
			r := request(method, path, "", body)
			maps.Copy(r.Header, session)
			return g.send(t, r)
		}
		made := send(http.MethodPost, "/api/v1/workspaces", `{"slug":"s`+strings.ReplaceAll(ids(), "-", "")+`","name":"x"}`)
		var there struct{ ID string }
		if err := json.Unmarshal(made.body, &there); err != nil || made.status != http.StatusCreated {
			t.Fatalf("%d %s", made.status, made.body)
		}
		if got := send(http.MethodPut, "/api/v1/session", `{"workspaceId":"`+ids()+`"}`); got.status != http.StatusNotFound || got.header.Get("Set-Cookie") != "" {
			t.Errorf("one that is not theirs: %d %s", got.status, got.body)
		}
		chosen := send(http.MethodPut, "/api/v1/session", `{"workspaceId":"`+there.ID+`"}`)
		set, err := http.ParseSetCookie(chosen.header.Get("Set-Cookie"))
		if err != nil || chosen.status != http.StatusOK {
			t.Fatalf("%d %s, %v", chosen.status, chosen.body, err)
		}
		session.Set("Cookie", set.Name+"="+set.Value)
		var me struct{ WorkspaceID, Role string }
		if got := send(http.MethodGet, "/api/v1/me", ""); json.Unmarshal(got.body, &me) != nil || me.WorkspaceID != there.ID || me.Role != "OWNER" {
			t.Errorf("then they are %s", got.body)
		}
	})
}
