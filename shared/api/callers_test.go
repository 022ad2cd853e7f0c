package api_test

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

const jwtSecret = "a secret of the tests that people's tokens are signed with"

// caller is one kind of caller of the API, with the expected result.
type caller struct {
	name    string
	with    http.Header
	kind    auth.Kind    // the kind of its principal; "": it has none
	role    auth.Role    // role of a person or a key
	scopes  []auth.Scope // scopes of a key
	refused int          // status of the refusal if it has no principal
	reads   bool         // a page of another origin: it may read but not change
}

// expected returns the status with which the API must refuse the caller. It returns 0 if the caller
// is admitted: the route then chooses the status. It uses the table of routes only.
func (c caller) expected(r api.Route) int {
	site, origin := c.with.Get("Sec-Fetch-Site"), c.with.Get("Origin")
	foreign := site == "cross-site" || strings.HasPrefix(origin, "https:")
	if r.Ours && foreign {
		return http.StatusForbidden
	}
	if r.Least == "" && len(r.Kinds) == 0 {
		return 0 // anybody may call it
	}
	changes := r.Method != http.MethodGet
	if r.Front && c.with.Get("Cookie") != "" { // a cookie does not count there, and no page may call it
		if foreign {
			return http.StatusForbidden
		}
		return http.StatusUnauthorized
	}
	switch {
	case c.kind == "":
		return c.refused
	case c.reads && changes:
		return http.StatusForbidden
	case c.kind == auth.Agent || c.kind == auth.Site:
		if slices.Contains(r.Kinds, c.kind) {
			return 0
		}
		return http.StatusForbidden
	case r.Least == "" || !c.role.AtLeast(r.Least):
		return http.StatusForbidden
	case c.kind != auth.Key, r.Front: // the routes behind a front check the scopes
		return 0
	case r.Persons:
		return http.StatusForbidden
	}
	resource := strings.Split(strings.TrimPrefix(r.Path, "/api/v1/"), "/")[0]
	may := []auth.Scope{"*", "*:write", auth.Scope(resource + ":write")}
	if !changes {
		may = append(may, "*:read", auth.Scope(resource+":read"))
	}
	if slices.ContainsFunc(c.scopes, func(s auth.Scope) bool { return slices.Contains(may, s) }) {
		return 0
	}
	return http.StatusForbidden
}

// TestEveryRouteForEveryCaller calls each route as each kind of caller.
func TestEveryRouteForEveryCaller(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		callers := g.callers(t)
		table := api.Routes()
		slices.SortStableFunc(table, func(a, b api.Route) int { return cmp.Compare(order(a), order(b)) })
		for _, route := range table {
			ask, ok := right[route.ID]
			if !ok {
				t.Errorf("%s %s is not in this test", route.Method, route.Path)
				continue
			}
			for _, c := range callers {
				r := request(route.Method, ask.path, "", ask.body)
				for name, values := range c.with {
					r.Header[name] = values
				}
				got := g.send(t, r)
				want := c.expected(route)
				if refused := got.status == http.StatusUnauthorized || got.status == http.StatusForbidden; want != 0 && got.status != want ||
					want == 0 && refused && got.status != ask.status || got.status >= http.StatusInternalServerError {
					t.Errorf("%s by %s: %d, want %d (0: let in): %s", route.ID, c.name, got.status, want, got.body)
				}
			}
		}
	})
}

// order sorts the route that ends its caller's session after the other routes.
func order(r api.Route) int {
	if r.ID == "end-session" {
		return 1
	}
	return 0
}

// TestWhatAgentsMayCall: agents may not read what people have said to others.
func TestWhatAgentsMayCall(t *testing.T) {
	var may []string
	for _, route := range api.Routes() {
		if slices.Contains(route.Kinds, auth.Agent) {
			may = append(may, route.ID)
		}
	}
	slices.Sort(may)
	want := []string{
		"acquire-lane", "advance-agent-task", "beat-agent", "begin-execution", "cancel-execution", "claim-agent-task", "complete-agent-task",
		"complete-execution", "explain-lane", "fail-agent-task", "fail-execution", "get-agent-task", "get-execution", "list-tasks-of-agent",
		"lock-thread", "park-thread", "release-lane", "renew-lane", "report-agent-task-usage", "send-message", "unlock-thread",
		"validate-agent-task-usage",
	}
	if !slices.Equal(may, want) {
		t.Errorf("agents may call %q, want %q", may, want)
	}
}

// TestWhatIsForPersonsAlone: the thief of a key must be unable to decide about an agent's calls and
// to keep access after the key is revoked.
func TestWhatIsForPersonsAlone(t *testing.T) {
	var persons []string
	for _, route := range api.Routes() {
		if route.Persons {
			persons = append(persons, route.ID)
		}
	}
	slices.Sort(persons)
	want := []string{
		"add-member", "approve-approval", "bulk-approvals", "choose-workspace", "create-api-key", "create-site-key", "create-workspace",
		"delete-workspace", "patch-member", "reject-approval", "remove-member", "sign-out-member",
	}
	if !slices.Equal(persons, want) {
		t.Errorf("only persons may call %q, want %q", persons, want)
	}
}

// gate is a world with real authentication.
type gate struct {
	*world
	agents auth.AgentTokens
	past   *auth.Sessions // its sessions began yesterday
}

// keyOf returns the key of one workspace for every workspace.
type keyOf struct {
	auth.Keys
	ws db.Workspace
}

func (k keyOf) AgentKey(ctx context.Context, _ db.Workspace) ([]byte, error) {
	return k.Keys.AgentKey(ctx, k.ws)
}

const (
	working    = "0198a2b4-0000-7000-8000-00000000000a"
	terminated = "0198a2b4-0000-7000-8000-00000000000b"
)

func newGate(t testing.TB, e dbtest.Env) *gate {
	t.Helper()
	g := &gate{}
	g.world = newWorld(t, e, func(d *api.Deps) {
		g.agents = *d.AgentTokens
		people, err := d.People.UserTokens(auth.TokenConfig{Secret: jwtSecret, Issuer: "us", Audience: "lanekeeper"}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		yesterday := func() time.Time { return time.Now().Add(-24 * time.Hour) }
		if g.past, err = d.People.NewSessions(auth.SessionConfig{Key: sessionKey, AdminToken: owner, Clock: yesterday}); err != nil {
			t.Fatal(err)
		}
		d.Auth = auth.New(tokens(e.Workspace), people, d.People.VerifyKey, g.agents.Verify).WithSessions(d.Sessions)
		d.Streams = &sse.Streams{Every: time.Millisecond, For: time.Millisecond}
	})
	g.registered(t, g.Workspace, working)
	g.registered(t, g.Workspace, terminated)
	g.change(t, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := g.Agents.Terminate(ctx, tx, terminated, "", false)
		return err
	})
	return g
}

// registered registers an agent, whose second token is the valid one.
func (g *gate) registered(t testing.TB, ws db.Workspace, id string) {
	t.Helper()
	err := g.Env.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) error {
		_, _, err1 := g.Agents.Register(ctx, tx, agent.Agent{ID: id, Name: "scout", MaxConcurrentTasks: 2, CreatedBy: "user:ada"})
		_, err2 := g.Agents.Rotate(ctx, tx, id)
		return errors.Join(err1, err2)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// minted returns the token of a generation of an agent.
func minted(t testing.TB, by auth.AgentTokens, ws db.Workspace, id string, generation int) string {
	t.Helper()
	mint, err1 := by.Minter(t.Context(), ws)
	token, err2 := mint(id, generation)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

// join makes a new person a member of a workspace.
func (g *gate) join(t testing.TB, ws db.Workspace, role auth.Role) (p auth.Person) {
	t.Helper()
	err := g.Env.DB.Tx(t.Context(), ws, func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = g.People.AddMember(ctx, tx, ids()+"@example.org", "", role, auth.Principal{Kind: auth.Local, ID: "admin"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// change runs a transaction in the world's workspace.
func (g *gate) change(t testing.TB, fn func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := g.Env.DB.Tx(t.Context(), g.Workspace, fn); err != nil {
		t.Fatal(err)
	}
}

func bearer(token string, more ...string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + token}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// jwt returns a person's token. change replaces some of its claims.
func jwt(subject string, change map[string]any) string {
	claims := map[string]any{"iss": "us", "aud": "lanekeeper", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	for name, v := range change {
		claims[name] = v
	}
	payload, _ := json.Marshal(claims) // strings and numbers always encode
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	mac := hmac.New(sha256.New, []byte(jwtSecret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// key creates a key and returns its id and its text.
func (g *gate) key(t testing.TB, by auth.Principal, k auth.APIKey) (id, clear string) {
	t.Helper()
	k.Name = "k"
	g.change(t, func(ctx context.Context, tx *db.Tx) error {
		made, text, err := g.People.CreateKey(ctx, tx, by, k)
		id, clear = made.ID, text.Reveal()
		return err
	})
	return id, clear
}

func cookie(t testing.TB, s *auth.Sessions, p auth.Principal, more ...string) http.Header {
	t.Helper()
	c, err := s.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Cookie": {c.Name + "=" + c.Value}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// callers returns all kinds of callers.
func (g *gate) callers(t testing.TB) []caller {
	t.Helper()
	const unknown = http.StatusUnauthorized
	return slices.Concat([]caller{
		{name: "a stranger", with: http.Header{}, refused: unknown},
		{name: "a made-up token", with: bearer("nonsense"), refused: unknown},
		{name: "two tokens", with: http.Header{"Authorization": {"Bearer " + owner, "Bearer " + owner}}, refused: unknown},
		{name: "another scheme", with: http.Header{"Authorization": {"Basic " + owner}}, refused: unknown},
		{name: "the local admin", with: bearer(owner), kind: auth.Local, role: auth.Owner},
	}, g.people(t), g.programs(t), g.others(t))
}

// people returns callers with a token or a session of a person.
func (g *gate) people(t testing.TB) (all []caller) {
	t.Helper()
	const same = "same-origin"
	who := func(p auth.Person) auth.Principal {
		return auth.Principal{Workspace: g.Workspace, Kind: auth.User, ID: p.ID}
	}
	for _, role := range []auth.Role{auth.Owner, auth.Admin, auth.Member} {
		p := g.join(t, g.Workspace, role)
		in := func(name string, with http.Header) caller {
			return caller{name: fmt.Sprint(name, " of role ", role), with: with, kind: auth.User, role: role}
		}
		crossing := func(name string, with http.Header) caller {
			c := in(name, with)
			c.reads = true
			return c
		}
		all = append(all,
			in("a person", bearer(jwt(p.ID, nil))),
			in("a person who names the workspace", bearer(jwt(p.ID, nil), "X-Workspace-Id", string(g.Workspace))),
			in("a person by a verified address", bearer(jwt("x", map[string]any{"email": p.Email, "email_verified": true}))),
			in("a session", cookie(t, g.Sessions, who(p), "Sec-Fetch-Site", same)),
			in("a session that names its origin", cookie(t, g.Sessions, who(p), "Origin", "http://example.com")),
			crossing("a session that says nothing of its origin", cookie(t, g.Sessions, who(p))),
			crossing("a session used by another site", cookie(t, g.Sessions, who(p), "Sec-Fetch-Site", "cross-site")),
			crossing("a session used by another origin", cookie(t, g.Sessions, who(p), "Origin", "https://evil.example")),
		)
	}
	p := g.join(t, g.Workspace, auth.Owner)
	ended := cookie(t, g.past, who(p), "Sec-Fetch-Site", same)
	twice := cookie(t, g.Sessions, who(p), "Sec-Fetch-Site", same)
	twice["Cookie"] = []string{twice.Get("Cookie") + "; " + twice.Get("Cookie")}
	forged := cookie(t, g.Sessions, who(p), "Sec-Fetch-Site", same)
	forged.Set("Cookie", forged.Get("Cookie")[:len(forged.Get("Cookie"))-8]+"AAAAAAAA")
	elsewhere := dbtest.NewWorkspace(t, g.Env.DB)
	stranger, gone := g.join(t, elsewhere, auth.Owner), g.join(t, g.Workspace, auth.Admin)
	g.change(t, func(ctx context.Context, tx *db.Tx) error { return g.People.RemoveMember(ctx, tx, gone.ID) })
	const unknown, denied = http.StatusUnauthorized, http.StatusForbidden
	return append(all,
		caller{name: "an owner of another workspace", with: bearer(jwt(stranger.ID, nil), "X-Workspace-Id", string(g.Workspace)), refused: denied},
		caller{name: "a session of another workspace's owner", refused: denied,
			with: cookie(t, g.Sessions, auth.Principal{Kind: auth.User, ID: stranger.ID}, "Sec-Fetch-Site", same, "X-Workspace-Id", string(g.Workspace))},
		caller{name: "the local admin in another workspace", with: bearer(owner, "X-Workspace-Id", string(elsewhere)), refused: denied},
		caller{name: "who has left", with: bearer(jwt(gone.ID, nil)), refused: denied},
		caller{name: "the session of who has left", with: cookie(t, g.Sessions, who(gone), "Sec-Fetch-Site", same), refused: denied},
		caller{name: "nobody's subject", with: bearer(jwt(ids(), nil)), refused: denied},
		caller{name: "a token that is over", with: bearer(jwt(p.ID, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})), refused: unknown},
		caller{name: "another issuer's token", with: bearer(jwt(p.ID, map[string]any{"iss": "them"})), refused: unknown},
		caller{name: "a token for another application", with: bearer(jwt(p.ID, map[string]any{"aud": "them"})), refused: unknown},
		caller{name: "a session that is over", with: ended, refused: unknown},
		caller{name: "two sessions", with: twice, refused: unknown},
		caller{name: "a forged session", with: forged, refused: unknown},
		caller{name: "a session's cookie as a token", with: bearer(strings.SplitN(ended.Get("Cookie"), "=", 2)[1]), refused: unknown},
	)
}

// programs returns callers with a key: one for each role and each scope.
func (g *gate) programs(t testing.TB) (all []caller) {
	t.Helper()
	admins := auth.Principal{Kind: auth.Local, ID: "admin", Role: auth.Owner}
	add := func(role auth.Role, scopes ...auth.Scope) {
		_, clear := g.key(t, admins, auth.APIKey{Kind: auth.APIKind, Role: role, Scopes: scopes})
		all = append(all, caller{name: fmt.Sprint("a key of ", role, " for ", scopes), with: bearer(clear), kind: auth.Key, role: role, scopes: scopes})
	}
	for _, role := range []auth.Role{auth.Owner, auth.Admin, auth.Member} {
		for _, scope := range []auth.Scope{"*", "*:read", "*:write"} {
			add(role, scope)
		}
	}
	add(auth.Owner, "lanes:read", "skills:write")
	resources := map[string]bool{}
	for _, route := range api.Routes() {
		if rest, ok := strings.CutPrefix(route.Path, "/api/v1/"); ok {
			resources[strings.Split(rest, "/")[0]] = true
		}
	}
	if g.Env.DB.Dialect() == db.SQLite { // the effect of a scope does not depend on the database
		for resource := range resources {
			add(auth.Owner, auth.Scope(resource+":read"))
			add(auth.Owner, auth.Scope(resource+":write"))
		}
	}
	everything := auth.APIKey{Kind: auth.APIKind, Role: auth.Owner, Scopes: []auth.Scope{"*"}}
	id, revoked := g.key(t, admins, everything)
	g.change(t, func(ctx context.Context, tx *db.Tx) error { _, err := g.People.RevokeKey(ctx, tx, id); return err })
	demoted, gone := g.join(t, g.Workspace, auth.Owner), g.join(t, g.Workspace, auth.Owner)
	by := func(p auth.Person) auth.Principal { return auth.Principal{Kind: auth.User, ID: p.ID, Role: auth.Owner} }
	_, theirs := g.key(t, by(demoted), everything)
	_, left := g.key(t, by(gone), everything)
	g.change(t, func(ctx context.Context, tx *db.Tx) error {
		if err := g.People.RemoveMember(ctx, tx, gone.ID); err != nil {
			return err
		}
		_, err := g.People.SetRole(ctx, tx, demoted.ID, auth.Member)
		return err
	})
	return append(all,
		caller{name: "a revoked key", with: bearer(revoked), refused: http.StatusUnauthorized},
		caller{name: "a key whose creator is a member now", with: bearer(theirs), kind: auth.Key, role: auth.Member, scopes: everything.Scopes},
		caller{name: "a key whose creator has left", with: bearer(left), refused: http.StatusUnauthorized},
		caller{name: "a key in another workspace", with: bearer(theirs, "X-Workspace-Id", ids()), refused: http.StatusForbidden},
	)
}

// others returns agents and web sites.
func (g *gate) others(t testing.TB) []caller {
	t.Helper()
	token := func(agent string, generation int) string { return minted(t, g.agents, g.Workspace, agent, generation) }
	elsewhere := dbtest.NewWorkspace(t, g.Env.DB)
	g.registered(t, elsewhere, working)
	thief := auth.AgentTokens{Keys: keyOf{g.agents.Keys, elsewhere}, Clock: time.Now}
	_, site := g.key(t, auth.Principal{Kind: auth.Local, ID: "admin", Role: auth.Owner},
		auth.APIKey{Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
	return []caller{
		{name: "an agent", with: bearer(token(working, 2)), kind: auth.Agent},
		{name: "an agent by a token that was replaced", with: bearer(token(working, 1)), refused: http.StatusUnauthorized},
		{name: "an agent of another workspace", with: bearer(minted(t, g.agents, elsewhere, working, 2), "X-Workspace-Id", string(g.Workspace)),
			refused: http.StatusForbidden},
		{name: "an agent by another workspace's key", with: bearer(minted(t, thief, g.Workspace, working, 2)), refused: http.StatusUnauthorized},
		{name: "a terminated agent", with: bearer(token(terminated, 2)), refused: http.StatusUnauthorized},
		{name: "a site", with: bearer(site, "Origin", "https://shop.example"), kind: auth.Site},
		{name: "a site's key on another site", with: bearer(site, "Origin", "https://evil.example"), refused: http.StatusForbidden},
		{name: "a site's key without an origin", with: bearer(site), refused: http.StatusForbidden},
	}
}
