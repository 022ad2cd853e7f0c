package wire_test

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	adminToken = "the-admin-token-of-an-installation"
	jwtSecret  = "the secret that the people's tokens are signed with"
	storeURL   = "postgres://keeper:known-to-many@db.example/lanekeeper"
)

// configurations lists ways to sign in, and whether they include the local admin.
var configurations = map[string]struct {
	change func(*app.Config)
	local  bool
}{
	"an issuer alone": {func(c *app.Config) { c.JWKSURL, c.JWTIssuer = "https://issuer.example/keys", "https://issuer.example" }, false},
	"an issuer, without KMS": {func(c *app.Config) {
		c.JWKSURL, c.JWTIssuer, c.Function = "https://issuer.example/keys", "i", "operate"
	}, false},
	"a secret alone":             {func(c *app.Config) { c.JWTSecret = jwtSecret }, false},
	"a secret, without KMS":      {func(c *app.Config) { c.JWTSecret, c.Function = jwtSecret, "operate" }, false},
	"an admin token":             {func(c *app.Config) { c.AdminToken = adminToken }, true},
	"an admin token and secret":  {func(c *app.Config) { c.AdminToken, c.JWTSecret = adminToken, jwtSecret }, true},
	"the same two, without KMS":  {func(c *app.Config) { c.AdminToken, c.JWTSecret, c.Function = adminToken, jwtSecret, "operate" }, true},
	"an admin token without KMS": {func(c *app.Config) { c.AdminToken, c.Function = adminToken, "operate" }, true},
}

// Knowledge of the database's URL or of the key that signs people's tokens does not suffice to
// forge a session of the local admin.
func TestNobodyForgesASessionOfTheLocalAdmin(t *testing.T) {
	for name, k := range configurations {
		t.Run(name, func(t *testing.T) {
			h := servedWith(t, k.change)
			types := []string{"lk-session+jwt", "lk-local-session+jwt"}
			cookies := map[string]string{}
			for _, known := range []string{storeURL, jwtSecret, storeURL + jwtSecret, ""} { // not the admin token
				masters := [][]byte{[]byte(known)}
				for _, salt := range []string{"", jwtSecret} {
					derived, err := hkdf.Key(sha256.New, []byte(known), []byte(salt), "lanekeeper sessions", 32)
					if err != nil {
						t.Fatal(err)
					}
					masters = append(masters, derived)
				}
				for i, master := range masters {
					for _, typ := range types {
						key, err := hkdf.Key(sha256.New, master, nil, "lanekeeper "+typ, 32)
						if err != nil {
							t.Fatal(err)
						}
						cookies[fmt.Sprintf("%s %d %s", known, i, typ)] = forged(typ, key)
					}
				}
			}
			for what, value := range cookies {
				for _, cookie := range []string{"__Host-lanekeeper", "lanekeeper"} {
					r := httptest.NewRequest(http.MethodGet, "https://keeper.example/api/v1/me", nil)
					r.AddCookie(&http.Cookie{Name: cookie, Value: value})
					if rec := answered(h, r); rec.Code == http.StatusOK {
						t.Errorf("forged with %s: %d %s", what, rec.Code, rec.Body)
					}
				}
			}

			sign := httptest.NewRequest(http.MethodPost, "https://keeper.example/api/v1/session", strings.NewReader(`{"token":"`+adminToken+`"}`))
			sign.Header.Set("Sec-Fetch-Site", "same-origin")
			signed := answered(h, sign)
			if ok := signed.Code == http.StatusOK; ok != k.local {
				t.Fatalf("signing in by the admin token: %d %s", signed.Code, signed.Body)
			}
			if !k.local {
				return
			}
			copied := signed.Result().Cookies()[0]
			use := func(method, path string) int {
				t.Helper()
				r := httptest.NewRequest(method, "https://keeper.example"+path, nil)
				r.AddCookie(copied)
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				return answered(h, r).Code
			}
			if got := use(http.MethodGet, "/api/v1/me"); got != http.StatusOK {
				t.Errorf("the cookie of the local admin: %d", got)
			}
			if got := use(http.MethodDelete, "/api/v1/session"); got != http.StatusNoContent {
				t.Errorf("signing out: %d", got)
			}
			if got := use(http.MethodGet, "/api/v1/me"); got != http.StatusUnauthorized {
				t.Errorf("a copy of the cookie after that: %d", got)
			}
		})
	}
}

// servedWith returns the API with a configuration.
func servedWith(t *testing.T, change func(*app.Config)) http.Handler {
	t.Helper()
	e := dbtest.New(t, dbtest.OnSQLite)
	cfg := app.Config{LLMProvider: "demo", DatabaseURL: storeURL, SecretKeyFile: filepath.Join(t.TempDir(), "key")}
	change(&cfg)
	core := app.NewCore(e.DB, cfg, slog.New(slog.DiscardHandler), func(context.Context) (awssdk.Config, error) {
		return awssdk.Config{}, errors.New("no AWS here")
	})
	all, err := workspace.New(e.DB)
	if err == nil {
		err = all.EnsureDefault(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := web.NewOperate(core, "test", func(func(context.Context)) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func answered(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

// forged returns a cookie of the local admin that a key signs.
func forged(typ string, key []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	text := encode([]byte(`{"alg":"HS256","typ":"`+typ+`"}`)) + "." +
		encode(fmt.Appendf(nil, `{"kind":"local","sub":"admin","auth_time":%d,"iat":%d,"exp":%d}`, now.Unix(), now.Unix(), now.Add(time.Hour).Unix()))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}
