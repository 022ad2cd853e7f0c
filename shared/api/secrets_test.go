package api_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

const secrets = "/api/v1/secrets"

func put(name, value string) string { return fmt.Sprintf(`{"name":%q,"value":%q}`, name, value) }

type secretTold struct {
	Name                 string
	CreatedAt, UpdatedAt time.Time
}

func TestSecretByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first, next secretTold
		got := w.must(t, 201, http.MethodPost, secrets, put("github", "tr0ub4dor"), &first)
		if first.Name != "github" || !about(time.Until(first.CreatedAt), 0) || got.header.Get("Location") != secrets+"/github" {
			t.Errorf("%+v, %v", first, got.header)
		}
		w.Skew.Advance(time.Hour)
		got = w.must(t, 200, http.MethodPost, secrets, put("github", "tr0ub4dor2"), &next)
		if !next.CreatedAt.Equal(first.CreatedAt) || !about(next.UpdatedAt.Sub(first.UpdatedAt), time.Hour) || got.header.Get("Location") != "" {
			t.Errorf("%+v after %+v, %v", next, first, got.header)
		}
		if v, err := w.Secrets.Resolve(t.Context(), w.Workspace, "github"); err != nil || v.Reveal() != "tr0ub4dor2" {
			t.Errorf("%v", err)
		}
		got = w.must(t, 204, http.MethodDelete, secrets+"/github", "", nil)
		if len(got.body) != 0 {
			t.Errorf("%s", got.body)
		}
		w.refused(t, 404, "not_found", http.MethodDelete, secrets+"/github", "")
		if _, err := w.Secrets.Resolve(t.Context(), w.Workspace, "github"); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("%v", err)
		}
		w.must(t, 201, http.MethodPost, secrets, put("github", "tr0ub4dor3"), nil)
	})
}

func TestListSecrets(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type list struct {
			Items      []secretTold
			NextCursor *string
		}
		var empty list
		w.must(t, 200, http.MethodGet, secrets, "", &empty)
		if empty.Items == nil || len(empty.Items) != 0 || empty.NextCursor != nil {
			t.Errorf("%+v", empty)
		}
		for _, name := range []string{"c", "a", "b"} {
			w.must(t, 201, http.MethodPost, secrets, put(name, "canary"), nil)
		}
		var names []string
		for at := secrets + "?limit=2"; at != ""; {
			var page list
			got := w.must(t, 200, http.MethodGet, at, "", &page)
			for _, i := range page.Items {
				names = append(names, i.Name)
				if i.CreatedAt.IsZero() || i.UpdatedAt.IsZero() {
					t.Errorf("%+v", i)
				}
			}
			if at = ""; page.NextCursor != nil {
				at = secrets + "?limit=2&cursor=" + url.QueryEscape(*page.NextCursor)
			}
			if bytes.Contains(got.body, []byte("canary")) {
				t.Errorf("a value is told: %s", got.body)
			}
		}
		if strings.Join(names, " ") != "a b c" {
			t.Errorf("%q", names)
		}
		for _, cursor := range []string{"x", base64.RawURLEncoding.EncodeToString([]byte("0.")), base64.RawURLEncoding.EncodeToString([]byte("0.a b"))} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, secrets+"?cursor="+cursor, ""); !p.at("query.cursor") {
				t.Errorf("%s: %+v", cursor, p)
			}
		}
	})
}

func TestSecretsThatAreRefused(t *testing.T) {
	w := onOne(t)
	for _, c := range []struct{ body, at string }{
		{`{}`, "body"}, {`{"name":"a"}`, "body"}, {`{"value":"canary"}`, "body"},
		{put("", "canary"), "body.name"}, {put("a b", "canary"), "body.name"}, {put("a/b", "canary"), "body.name"}, {put("ä", "canary"), "body.name"},
		{put(strings.Repeat("n", 65), "canary"), "body.name"}, {put("a", ""), "body.value"}, {put("a", strings.Repeat("canary", 11_000)), "body.value"},
		{put("a", strings.Repeat("ü", 40_000)), "body.value"}, {`{"name":"a","value":{"canary":1}}`, "body.value"}, {`{"name":"a","value":1}`, "body.value"},
		{`{"name":"a","value":null}`, "body.value"}, {`{"name":"a","value":"canary","more":"canary"}`, "body.more"}, {`{"name":"a","Value":"canary"}`, "body.Value"},
		{`{"name":"a","value":"canary","value":"canary2"}`, "body.value"}, {`{"name":"a","value":"can\u0000ary"}`, "body.value"},
	} {
		p := w.refused(t, 422, "invalid", http.MethodPost, secrets, c.body)
		if !p.at(c.at) || strings.Contains(fmt.Sprint(p), "canary") {
			t.Errorf("%.80s: %+v", c.body, p)
		}
	}
	for _, name := range []string{"a%20b", "a%2Fb", strings.Repeat("n", 65), "%C3%A4"} {
		if p := w.refused(t, 422, "invalid", http.MethodDelete, secrets+"/"+name, ""); !p.at("path.name") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	w.must(t, 201, http.MethodPost, secrets, put("a", strings.Repeat("v", secret.MaxValue)), nil)
	if strings.Contains(w.logs.String(), "canary") {
		t.Error("a value is logged")
	}
}

// The schema and the store accept the same names.
func FuzzSecretNames(f *testing.F) {
	for _, s := range []string{"a", "a.b_c-d", "-", "a b", "é", "a\x00", strings.Repeat("x", 65)} {
		f.Add(s)
	}
	w := onOne(f)
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" || s == "." || s == ".." || s == "/" {
			return // the mux does not accept them as a segment
		}
		got := w.call(t, http.MethodDelete, secrets+"/"+url.PathEscape(s), owner, "")
		if want := map[bool]int{true: 404, false: 422}[secret.ValidName(s)]; got.status != want {
			t.Errorf("%q: %d, want %d", s, got.status, want)
		}
	})
}

// Twenty canaries are stored, replaced and deleted. They appear in no response, no log and no
// activity.
func TestCanariesComeBackNowhere(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const canary = "tr0ub4dor-canary"
		var answers bytes.Buffer
		for i := range 20 {
			for _, r := range []*http.Request{
				request(http.MethodPost, secrets, owner, put(fmt.Sprint("s", i), fmt.Sprint(canary, i))),
				request(http.MethodPost, secrets, owner, put(fmt.Sprint("s", i), fmt.Sprint(canary, i, "again"))),
				request(http.MethodGet, secrets, owner, ""),
				request(http.MethodGet, "/api/v1/activity?limit=200", owner, ""),
			} {
				got := w.send(t, r)
				answers.Write(got.body)
				fmt.Fprint(&answers, got.header)
			}
		}
		w.must(t, 204, http.MethodDelete, secrets+"/s0", "", nil)
		var log struct {
			Items []struct {
				SkillName string
				Input     struct {
					Name, By string
					Version  int
				}
			}
		}
		got := w.must(t, 200, http.MethodGet, "/api/v1/activity?limit=200", "", &log)
		answers.Write(got.body)
		if len(log.Items) != 41 || log.Items[0].SkillName != "secret.delete" || log.Items[0].Input.Name != "s0" || log.Items[0].Input.By != "local:owner" ||
			log.Items[1].SkillName != "secret.put" || log.Items[1].Input.Version != 2 {
			t.Errorf("%d activities, %+v", len(log.Items), log.Items[:min(2, len(log.Items))])
		}
		all := answers.String() + w.logs.String()
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:16], url.QueryEscape(canary), fmt.Sprintf("%x", canary)} {
			if strings.Contains(all, form) {
				t.Errorf("%s is told", form)
			}
		}
	})
}

func TestSecretsWithoutAKey(t *testing.T) {
	w := onOne(t, func(d *api.Deps) {
		none, err := secret.New(d.DB, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Secrets = none
	})
	p := w.refused(t, 503, "no_key", http.MethodPost, secrets, put("a", "canary"))
	if strings.Contains(fmt.Sprint(p), "canary") || strings.Contains(w.logs.String(), "canary") {
		t.Errorf("%+v", p)
	}
	w.must(t, 200, http.MethodGet, secrets, "", nil)
	w.refused(t, 404, "not_found", http.MethodDelete, secrets+"/a", "")
}

func TestSecretsOfAKeyFileThatIsRefused(t *testing.T) {
	folder := t.TempDir()
	w := onOne(t, func(d *api.Deps) {
		refused, err := secret.New(d.DB, secret.NewKeyFile(folder)) // a folder cannot be a key file
		if err != nil {
			t.Fatal(err)
		}
		d.Secrets = refused
	})
	got := w.must(t, 503, http.MethodPost, secrets, put("a", "canary"), nil)
	if bytes.Contains(got.body, []byte(filepath.Base(folder))) {
		t.Errorf("the answer tells the path: %s", got.body)
	}
	if lines := w.logs.lines(t, "a request failed"); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), folder) {
		t.Errorf("the log does not tell the path: %v", lines)
	}
}
