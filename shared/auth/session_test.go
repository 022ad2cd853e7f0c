package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// signIn returns the cookie of a person's session.
func (g *gate) signIn(t testing.TB, p auth.Person) *http.Cookie {
	t.Helper()
	c, err := g.sessions.Start(t.Context(), auth.Principal{Kind: auth.User, ID: p.ID})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// visit returns a request of a page.
func visit(method string, c *http.Cookie, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "https://keeper.example/", nil)
	if c != nil {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestTheCookie(t *testing.T) {
	g := newGate(t)
	c := g.signIn(t, g.ada)
	if c.Name != "__Host-lanekeeper" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*3600 {
		t.Errorf("over https it is %+v", c)
	}
	if strings.Contains(c.Value, adminToken) || strings.Contains(c.Value, hsSecret) {
		t.Error("it holds a secret")
	}
	overHTTP := signedWith("ours", g.now)
	overHTTP.Secure = false
	loopback, err := g.s.NewSessions(overHTTP)
	if err != nil {
		t.Fatal(err)
	}
	c, err = loopback.Start(t.Context(), admin)
	if err != nil || c.Name != "lanekeeper" || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("on loopback it is %+v, %v", c, err)
	}
	if end, err := g.sessions.End(t.Context(), auth.Principal{}); err != nil || end.MaxAge >= 0 || end.Value != "" || end.Name != g.sessions.Name() || !end.Secure || end.Path != "/" {
		t.Errorf("signing out is %+v", end)
	}
	for _, kind := range []auth.Kind{auth.Agent, auth.Key, auth.Site, ""} {
		if _, err := g.sessions.Start(t.Context(), auth.Principal{Kind: kind, ID: "x"}); !errors.Is(err, auth.ErrForbidden) {
			t.Errorf("%q gets a session: %v", kind, err)
		}
	}
	if _, err := g.s.NewSessions(auth.SessionConfig{Clock: g.now}); err == nil {
		t.Error("sessions without a key")
	}
	short := signedWith("ours", g.now)
	short.Key = func(context.Context) ([]byte, error) { return []byte("short"), nil }
	weak, err := g.s.NewSessions(short)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := weak.Start(t.Context(), admin); err == nil {
		t.Error("a session under a key of five bytes")
	}
}

func TestASessionSaysWho(t *testing.T) {
	g := newGate(t)
	local, err := g.sessions.Start(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	here, there := string(g.Workspace), string(g.theirs)
	bobsChoice, err := g.sessions.Start(t.Context(), auth.Principal{Kind: auth.User, ID: g.bob.ID, Workspace: g.theirs})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		r      *http.Request
		status int
		who    string
	}{
		{"ada", visit("GET", g.signIn(t, g.ada)), 200, "user:" + g.ada.ID + " OWNER " + here},
		{"ada elsewhere", visit("GET", g.signIn(t, g.ada), "X-Workspace-Id", there), 403, ""},
		{"bob, of two: where he was first", visit("GET", g.signIn(t, g.bob)), 200, "user:" + g.bob.ID + " MEMBER " + here},
		{"bob here", visit("GET", g.signIn(t, g.bob), "X-Workspace-Id", here), 200, "user:" + g.bob.ID + " MEMBER " + here},
		{"bob in two places", visit("GET", g.signIn(t, g.bob), "X-Workspace-Id", here, "X-Workspace-Id", there), 400, ""},
		{"bob, who chose", visit("GET", bobsChoice), 200, "user:" + g.bob.ID + " OWNER " + there},
		{"bob, who chose otherwise now", visit("GET", bobsChoice, "X-Workspace-Id", here), 200, "user:" + g.bob.ID + " MEMBER " + here},
		{"the local admin", visit("GET", local), 200, "local:admin OWNER " + string(workspace.Default)},
		{"nobody", visit("GET", nil), 401, ""},
		{"a good token beside a bad cookie", visit("GET", &http.Cookie{Name: g.sessions.Name(), Value: "x"}, "Authorization", "Bearer "+adminToken), 200, "local:admin OWNER " + string(workspace.Default)},
		{"a bad token beside a good cookie", visit("GET", local, "Authorization", "Bearer x"), 401, ""},
	} {
		if status, who := g.knock(c.r); status != c.status || who != c.who {
			t.Errorf("%s: %d %q", c.name, status, who)
		}
	}
	err = g.in(t, g.theirs, func(ctx context.Context, tx *db.Tx) error { return g.s.RemoveMember(ctx, tx, g.bob.ID) })
	if err != nil {
		t.Fatal(err)
	}
	if status, who := g.knock(visit("GET", bobsChoice)); status != 200 || who != "user:"+g.bob.ID+" MEMBER "+here {
		t.Errorf("bob, who has left what he chose: %d %q", status, who)
	}
	if _, err := g.DB.Exec(t.Context(), "", g.q.Disable, g.bob.ID); err != nil {
		t.Fatal(err)
	}
	if status, who := g.knock(visit("GET", bobsChoice)); status != 403 {
		t.Errorf("bob, disabled: %d %q", status, who)
	}
}

// Choosing another workspace continues the present session and does not prolong it.
func TestAChoiceDoesNotLengthenASession(t *testing.T) {
	g := newGate(t)
	c := g.signIn(t, g.bob)
	h := require(g.a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.From(r.Context())
		chosen, err := p.In(string(g.theirs))
		if err == nil {
			c, err = g.sessions.Start(t.Context(), chosen)
		}
		if err != nil {
			t.Error(err)
		}
	}), nil)
	for status := 200; status == 200; {
		g.advance(time.Hour)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, visit("GET", c))
		status = w.Code
	}
	if lasted := g.now().Sub(start); lasted != 7*24*time.Hour {
		t.Errorf("it lasted %s", lasted)
	}
}

// The path's workspace is used if the caller belongs to it. Otherwise the header decides, and the
// handler sees that the workspaces differ.
func TestAPathNamesTheWorkspace(t *testing.T) {
	g := newGate(t)
	here, there, elsewhere := string(g.Workspace), string(g.theirs), ids()
	mux := http.NewServeMux()
	mux.Handle("GET /workspaces/{workspaceId}", require(g.a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := auth.From(r.Context())
		_, _ = fmt.Fprintf(w, "%s %s", p.Role, p.Workspace)
	}), nil))
	for _, c := range []struct {
		p           auth.Person
		path, asked string
		status      int
		in          string
	}{
		{g.bob, there, "", 200, "OWNER " + there}, {g.bob, there, here, 200, "OWNER " + there}, {g.bob, strings.ToUpper(there), here, 200, "OWNER " + there},
		{g.bob, elsewhere, "", 200, "MEMBER " + here}, {g.bob, elsewhere, there, 200, "OWNER " + there}, {g.bob, "x", "", 200, "MEMBER " + here},
		{g.ada, there, "", 200, "OWNER " + here}, {g.ada, there, there, 403, ""}, {g.ada, here, "", 200, "OWNER " + here},
	} {
		r := visit("GET", g.signIn(t, c.p), "X-Workspace-Id", c.asked)
		r.URL.Path = "/workspaces/" + c.path
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.status || w.Code == 200 && w.Body.String() != c.in {
			t.Errorf("%s of %s, asked for %q: %d %q", c.path, c.p.Email, c.asked, w.Code, w.Body)
		}
	}
}

func TestSessionAttacks(t *testing.T) {
	g := newGate(t)
	good := g.signIn(t, g.ada)
	others, err := g.s.NewSessions(signedWith("another installation's", g.now))
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := others.Start(t.Context(), auth.Principal{Kind: auth.User, ID: g.ada.ID})
	if err != nil {
		t.Fatal(err)
	}
	header, claims := object{"alg": "HS256", "typ": "lk-local-session+jwt"}, object{"sub": "admin", "exp": g.now().Unix() + 600}
	values := aboutSpelling(good.Value)
	for _, none := range []string{"none", "None", "NONE"} {
		values[none] = forge(header.with(object{"alg": none}).text(), claims.text(), unsigned)
	}
	values["another installation's"] = stolen.Value
	for name, key := range map[string]string{"the admin token": adminToken, "the secret": adminToken + hsSecret, "the secret of HS256": hsSecret, "nothing": ""} {
		values["signed with "+name+" itself"] = forge(header.text(), claims.text(), hs256([]byte(key)))
	}
	delete(values, "quoted") // a cookie may be quoted
	n := 0
	for what, value := range values {
		n++
		r := visit("GET", nil)
		r.Header["Cookie"] = []string{g.sessions.Name() + "=" + value}
		if status, who := g.knock(r); status != 401 {
			t.Errorf("%s: %d %s", what, status, who)
		}
	}
	twice := visit("GET", good)
	twice.AddCookie(&http.Cookie{Name: good.Name, Value: good.Value})
	otherName := visit("GET", &http.Cookie{Name: "lanekeeper", Value: good.Value})
	for what, r := range map[string]*http.Request{"two cookies": twice, "the name without a prefix": otherName} {
		n++
		if status, _ := g.knock(r); status != 401 {
			t.Errorf("%s: %d", what, status)
		}
	}
	if status, _ := g.knock(visit("GET", good)); status != 200 {
		t.Errorf("the good cookie: %d", status)
	}
	t.Logf("%d attacks", n)
}

// A runner that serves plain http may stand behind a proxy on its machine that serves https: a page's origin then says https.
func TestOriginsBehindAProxy(t *testing.T) {
	g := newGate(t)
	plain := signedWith("ours", g.now)
	plain.Secure = false
	sessions, err := g.s.NewSessions(plain)
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]bool{
		"http://keeper.example": true, "https://keeper.example": true, "https://keeper.example:8443": false, "https://evil.example": false,
		"ftp://keeper.example": false, "null": false,
	} {
		r := httptest.NewRequest("POST", "http://keeper.example/api/v1/objectives", nil)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Origin", origin)
		if got := sessions.SameOrigin(r); got != want {
			t.Errorf("%s: %t", origin, got)
		}
	}
}

// Only a page of ours may send requests that change something.
func TestOrigins(t *testing.T) {
	g := newGate(t)
	c := g.signIn(t, g.ada)
	for _, k := range []struct {
		headers []string
		ok      bool
	}{
		{nil, false},
		{[]string{"Sec-Fetch-Site", "same-origin"}, true},
		{[]string{"Origin", "https://keeper.example"}, true},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://keeper.example"}, true},
		{[]string{"Sec-Fetch-Site", "same-site"}, false},
		{[]string{"Sec-Fetch-Site", "cross-site"}, false},
		{[]string{"Sec-Fetch-Site", "none"}, false},
		{[]string{"Sec-Fetch-Site", ""}, false},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://evil.example"}, false},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://keeper.example"}, false},
		{[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}, false},
		{[]string{"Origin", "https://keeper.example", "Origin", "https://evil.example"}, false},
		{[]string{"Origin", "null"}, false},
		{[]string{"Origin", ""}, false},
		{[]string{"Origin", "http://keeper.example"}, false},
		{[]string{"Origin", "https://keeper.example:8443"}, false},
		{[]string{"Origin", "https://keeper.example.evil.example"}, false},
		{[]string{"Origin", "https://evil.example/https://keeper.example"}, false},
		{[]string{"Origin", "https://sub.keeper.example"}, false},
		{[]string{"Referer", "https://keeper.example/"}, false},
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "BREW"} {
			if status, _ := g.knock(visit(method, c, k.headers...)); (status == 200) != k.ok || !k.ok && status != 403 {
				t.Errorf("%s with %q: %d", method, k.headers, status)
			}
		}
		if status, _ := g.knock(visit("GET", c, k.headers...)); status != 200 {
			t.Errorf("GET with %q: %d", k.headers, status)
		}
	}
	if status, _ := g.knock(visit("POST", nil, "Authorization", "Bearer "+adminToken, "Origin", "https://evil.example")); status != 200 {
		t.Error("a token is no cookie: a page elsewhere that has one may use it")
	}
}

func TestSiteKeysAreForTheirPages(t *testing.T) {
	g := newGate(t)
	_, bound := g.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind, Origins: []string{"https://shop.example", "http://localhost:3000"}})
	for origin, ok := range map[string]bool{
		"https://shop.example": true, "http://localhost:3000": true, "": false, "null": false, "http://shop.example": false, "https://shop.example:8443": false,
		"https://evil.example": false, "https://shop.example.evil.example": false, "https://SHOP.example": false,
	} {
		r := bearer("/chat", bound.Reveal())
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if status, _ := g.knock(r); (status == 200) != ok || !ok && status != 403 {
			t.Errorf("from %q: %d", origin, status)
		}
	}
	// A page of our own origin sends no Origin with a GET, and says so in another way.
	_, own := g.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind, Origins: []string{"http://keeper.example"}})
	for _, c := range []struct {
		host, site string
		origins    []string
		ok         bool
	}{
		{"keeper.example", "same-origin", nil, true},
		{"keeper.example", "same-site", nil, false},
		{"keeper.example", "cross-site", nil, false},
		{"keeper.example", "", nil, false},
		{"keeper.example:8080", "same-origin", nil, false},
		{"keeper.example", "same-origin", []string{""}, false},
		{"keeper.example", "same-origin", []string{"https://evil.example"}, false},
		{"keeper.example", "same-origin", []string{"http://keeper.example", "https://evil.example"}, false},
	} {
		r := bearer("/chat", own.Reveal())
		r.Host = c.host
		r.Header.Set("Sec-Fetch-Site", c.site)
		if c.origins != nil {
			r.Header["Origin"] = c.origins
		}
		if status, _ := g.knock(r); (status == 200) != c.ok || !c.ok && status != 403 {
			t.Errorf("%+v: %d", c, status)
		}
	}
	_, free := g.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind})
	for _, origin := range []string{"", "null", "https://evil.example"} {
		r := bearer("/chat", free.Reveal())
		r.Header.Set("Origin", origin)
		if status, _ := g.knock(r); status != 200 {
			t.Errorf("a key for any page refuses that of %q: %d", origin, status)
		}
	}
}

func TestASessionSlidesAndEnds(t *testing.T) {
	g := newGate(t)
	c := g.signIn(t, g.ada)
	use := func() (int, *http.Cookie) {
		w := httptest.NewRecorder()
		g.h.ServeHTTP(w, visit("GET", c))
		cookies := w.Result().Cookies()
		if len(cookies) == 0 {
			return w.Code, nil
		}
		return w.Code, cookies[0]
	}
	g.advance(59 * time.Minute)
	if status, renewed := use(); status != 200 || renewed != nil {
		t.Errorf("within an hour: %d, renewed %v", status, renewed)
	}
	old := c
	for hours := 0; hours < 7*24-10; hours += 10 {
		g.advance(10 * time.Hour)
		status, renewed := use()
		if status != 200 || renewed == nil || renewed.MaxAge > 12*3600 {
			t.Fatalf("after %d hours: %d, renewed %v", hours, status, renewed)
		}
		c = renewed
	}
	if status, _ := g.knock(visit("GET", old)); status != 401 {
		t.Errorf("the first cookie, not renewed: %d", status)
	}
	if c.MaxAge >= 12*3600 {
		t.Errorf("the last cookie is good for %d s", c.MaxAge)
	}
	g.advance(8 * time.Hour)
	if status, _ := use(); status != 401 {
		t.Errorf("after a week: %d", status)
	}
}

func TestALinkSignsInOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		c := newClock()
		email := address("ada")
		ada := w.join(t, w.Workspace, email, auth.Admin)
		s, err := w.s.NewSessions(signedWith("ours", c.now))
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.MintLink(t.Context(), email)
		link := reveal(t, v, err)
		v, err = s.MintLink(t.Context(), strings.ToUpper(email))
		another := reveal(t, v, err)
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := 0
		for range 4 {
			wg.Go(func() {
				p, err := s.RedeemLink(t.Context(), link)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && p.ID == ada.ID && p.Workspace == w.Workspace && p.Role == auth.Admin:
					won++
				case !errors.Is(err, auth.ErrInvalid):
					t.Errorf("%+v, %v", p, err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("it signed in %d times", won)
		}
		if _, err := s.RedeemLink(t.Context(), another); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("a link from before the last sign-in: %v", err)
		}
		v, err = s.MintLink(t.Context(), email)
		link = reveal(t, v, err)
		c.advance(10 * time.Minute)
		if _, err := s.RedeemLink(t.Context(), link); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("after its time: %v", err)
		}
		if _, err := s.MintLink(t.Context(), address("stranger")); !errors.Is(err, auth.ErrForbidden) {
			t.Errorf("for a stranger: %v", err)
		}
	})
}

func TestLinkAttacks(t *testing.T) {
	g := newGate(t)
	v, err := g.sessions.MintLink(t.Context(), g.ada.Email)
	good := reveal(t, v, err)
	for what, token := range aboutSpelling(good) {
		if _, err := g.sessions.RedeemLink(t.Context(), token); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p, err := g.sessions.RedeemLink(t.Context(), good); err != nil || p.ID != g.ada.ID {
		t.Errorf("the good one after that: %+v, %v", p, err)
	}
}

// If the database can't be queried, the key counts neither as valid nor as invalid.
func TestADatabaseThatIsDownIsNoVerdict(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	_, key := w.key(t, auth.APIKey{Name: "s", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
	other, _ := w.Open(t, 0)
	s, err := auth.NewStore(other, ids, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.VerifyKey(gone, key.Reveal()); err == nil || errors.Is(err, auth.ErrInvalid) {
		t.Errorf("who could not ask says %v", err)
	}
	if _, err := auth.New(s.VerifyKey).Authenticate(gone, "lk_x"); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("what is no key needs no asking: %v", err)
	}
}

// Signing out ends each copy of the cookie, also a renewed one, and no other person's.
func TestSigningOutEndsTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		c := newClock()
		w.withDefault(t)
		s, err := w.s.NewSessions(signedWith("ours", c.now))
		if err != nil {
			t.Fatal(err)
		}
		asks := auth.New().WithSessions(s)
		who := func(cookie *http.Cookie) (p auth.Principal, status int) {
			t.Helper()
			rec := httptest.NewRecorder()
			require(asks, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { p, _ = auth.From(r.Context()) }),
				func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }).ServeHTTP(rec, visit("GET", cookie))
			return p, rec.Code
		}
		start := func(p auth.Principal) *http.Cookie {
			t.Helper()
			cookie, err := s.Start(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			return cookie
		}
		ada, bob := w.join(t, w.Workspace, address("ada"), auth.Owner), w.join(t, w.Workspace, address("bob"), auth.Member)
		adas, bobs := start(auth.Principal{Kind: auth.User, ID: ada.ID}), start(auth.Principal{Kind: auth.User, ID: bob.ID})
		locals := start(admin)
		for _, leaves := range []*http.Cookie{adas, locals} {
			p, status := who(leaves)
			again := start(p) // as after choosing another workspace
			if status != http.StatusOK {
				t.Fatal(status)
			}
			if end, err := s.End(t.Context(), p); err != nil || end.MaxAge >= 0 {
				t.Fatal(end, err)
			}
			for _, copied := range []*http.Cookie{leaves, again, start(p)} {
				if _, status := who(copied); status != http.StatusUnauthorized {
					t.Errorf("a copy of a cookie of %s, who has signed out: %d", p, status)
				}
			}
			if _, status := who(bobs); status != http.StatusOK {
				t.Errorf("bob, when %s has left: %d", p, status)
			}
			p.SignedIn = time.Time{}
			if _, status := who(start(p)); status != http.StatusOK {
				t.Errorf("%s, who signs in again: %d", p, status)
			}
		}
		if err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.EndSessions(ctx, tx, bob.ID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if _, status := who(bobs); status != http.StatusUnauthorized {
			t.Errorf("bob, whom an owner has signed out: %d", status)
		}
		elsewhere := dbtest.NewWorkspace(t, w.DB)
		if err := w.in(t, elsewhere, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.EndSessions(ctx, tx, ada.ID)
			return err
		}); !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("by an owner of another workspace: %v", err)
		}
	})
}

// Changing the admin token ends the local admin's sessions. Without a token there are none.
func TestSessionsOfTheLocalAdminNeedTheToken(t *testing.T) {
	g := newGate(t)
	of := func(token string) *auth.Sessions {
		t.Helper()
		c := signedWith("ours", g.now)
		c.AdminToken = token
		s, err := g.s.NewSessions(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	old, err := of("the old token of the admin").Start(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := g.knock(visit("GET", old)); status != 401 {
		t.Errorf("a session under another admin token: %d", status)
	}
	if _, err := of("").Start(t.Context(), admin); !errors.Is(err, auth.ErrForbidden) {
		t.Errorf("a local session where there is no admin token: %v", err)
	}
	adas, err := of("").Start(t.Context(), auth.Principal{Kind: auth.User, ID: g.ada.ID})
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := g.knock(visit("GET", adas)); status != 200 {
		t.Errorf("a person's session depends on the admin token: %d", status)
	}
}
