package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func localToken(t testing.TB, token string) auth.Verifier {
	t.Helper()
	v, err := auth.AdminToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRolesIncludeThoseBelow(t *testing.T) {
	order := []auth.Role{"", auth.Member, auth.Admin, auth.Owner}
	for i, r := range order {
		for j, least := range order {
			if got, want := r.AtLeast(least), i >= j && j > 0; got != want {
				t.Errorf("%q at least %q: %v", r, least, got)
			}
		}
	}
	if auth.Role("owner").AtLeast(auth.Member) || auth.Owner.AtLeast("ADMIM") {
		t.Error("what is no role counts as one")
	}
}

func TestAdminToken(t *testing.T) {
	a := auth.New(localToken(t, "correct-horse"))
	p, err := a.Authenticate(t.Context(), "correct-horse")
	want := auth.Principal{Workspace: workspace.Default, Kind: auth.Local, ID: "admin", Role: auth.Owner}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("%v (- want, + got):\n%s", err, diff)
	}
	for _, wrong := range []string{"", "x", "correct-hors", "correct-horse ", "Correct-horse", strings.Repeat("x", 5000)} {
		if p, err := a.Authenticate(t.Context(), wrong); !errors.Is(err, auth.ErrInvalid) || p.Kind != "" {
			t.Errorf("%.20q: %+v, %v", wrong, p, err)
		}
	}
	for _, unusable := range []string{"", " ", "with space", "tab\t", "ümlaut", strings.Repeat("x", 4097)} {
		if _, err := auth.AdminToken(unusable); !errors.Is(err, auth.ErrUnusable) {
			t.Errorf("%.20q is taken as a token: %v", unusable, err)
		}
	}
}

func TestVerifiersAreTriedInTurn(t *testing.T) {
	down := errors.New("keys can't be fetched")
	failing := func(context.Context, string) (auth.Principal, error) { return auth.Principal{}, down }
	known := localToken(t, "known")
	if _, err := auth.New().Authenticate(t.Context(), "known"); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("nobody to ask: %v", err)
	}
	if _, err := auth.New(localToken(t, "other"), known).Authenticate(t.Context(), "known"); err != nil {
		t.Errorf("known to the second: %v", err)
	}
	if _, err := auth.New(failing, known).Authenticate(t.Context(), "known"); err != nil {
		t.Errorf("known to the second while the first is down: %v", err)
	}
	if _, err := auth.New(failing, known).Authenticate(t.Context(), "unknown"); !errors.Is(err, down) {
		t.Errorf("unknown while one is down: %v", err)
	}
}

func TestRequire(t *testing.T) {
	a := auth.New(localToken(t, "right"))
	var seen auth.Principal
	h := require(a, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen, _ = auth.From(r.Context())
	}), nil)
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"none", nil, 401, "missing_token"},
		{"right", []string{"Bearer right"}, 200, ""},
		{"scheme in another case", []string{"bearer right"}, 200, ""},
		{"wrong", []string{"Bearer wrong"}, 401, "invalid_token"},
		{"empty", []string{""}, 401, "invalid_token"},
		{"no scheme", []string{"right"}, 401, "invalid_token"},
		{"another scheme", []string{"Basic right"}, 401, "invalid_token"},
		{"two", []string{"Bearer right", "Bearer right"}, 401, "invalid_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen = auth.Principal{}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header["Authorization"] = c.headers
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Fatalf("status %d", w.Code)
			}
			if c.status == 200 {
				if seen.Role != auth.Owner {
					t.Errorf("principal %+v", seen)
				}
				return
			}
			if !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("headers %v", w.Header())
			}
			var p struct{ Code string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code != c.code {
				t.Errorf("body %s: %v", w.Body, err)
			}
			if strings.Contains(w.Body.String(), "wrong") {
				t.Error("the answer repeats the token")
			}
		})
	}
}

func TestRequireWhereNobodyCanTell(t *testing.T) {
	down := errors.New("down")
	a := auth.New(func(context.Context, string) (auth.Principal, error) { return auth.Principal{}, down })
	var got error
	h := require(a, http.NotFoundHandler(), func(w http.ResponseWriter, _ *http.Request, err error) {
		got = err
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer any")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !errors.Is(got, down) {
		t.Errorf("%d, %v", w.Code, got)
	}
}

// TestAVerifierThatHangsIsNotWaitedFor: while the database gives no response, a request is answered in the time of a route.
func TestAVerifierThatHangsIsNotWaitedFor(t *testing.T) {
	hangs := func(ctx context.Context, _ string) (auth.Principal, error) {
		<-ctx.Done()
		return auth.Principal{}, ctx.Err()
	}
	a := auth.New(hangs)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a stranger passes") })
	for name, ask := range map[string]func(told func(error)) http.Handler{
		"required": func(told func(error)) http.Handler {
			return require(a, next, func(_ http.ResponseWriter, _ *http.Request, err error) { told(err) })
		},
		"admitted": func(told func(error)) http.Handler {
			return a.AdmitOr(next, func(_ http.ResponseWriter, _ *http.Request, err error) bool { told(err); return true })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			var why error
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", "Bearer x")
			ask(func(err error) { why = err }).ServeHTTP(httptest.NewRecorder(), r)
			if took := time.Since(begun); !errors.Is(why, context.DeadlineExceeded) || took != 10*time.Second {
				t.Errorf("%s: %v after %s", name, why, took)
			}
		})
	}
}

func TestAdmitLetsStrangersPass(t *testing.T) {
	a := auth.New(localToken(t, "right"))
	for token, known := range map[string]bool{"": false, "Bearer right": true, "Bearer wrong": false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		served := false
		refused := func(_ http.ResponseWriter, _ *http.Request, err error) bool {
			if known || errors.Is(err, auth.ErrInvalid) != (token != "") {
				t.Errorf("%q: %v", token, err)
			}
			return false
		}
		a.AdmitOr(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served = true
			if _, ok := auth.From(r.Context()); ok != known {
				t.Errorf("%q: known %v", token, ok)
			}
		}), refused).ServeHTTP(httptest.NewRecorder(), r)
		if !served {
			t.Errorf("%q was not let through", token)
		}
	}
}
