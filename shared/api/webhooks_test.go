package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// receive stores a webhook, as if it had arrived with a valid signature.
func (w *world) receive(t testing.TB, ws db.Workspace, source, body string) string {
	t.Helper()
	all, err := w.Workspaces.List(t.Context(), []db.Workspace{ws})
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Inbox.Find(t.Context(), all[0].Slug, source)
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.With(t.Context(), w.Traces.New(trace.Webhook))
	c := inbox.Content{ID: "d-" + body, Event: "issues.opened", Digest: fmt.Sprintf("%064x", len(body)), Headers: map[string]string{"x-of": body}}
	got, err := w.Inbox.Receive(ctx, f, c, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return got.ID
}

// delivered stores a webhook of a tenant.
func (w *world) delivered(t testing.TB, of tenant) string {
	t.Helper()
	return w.receive(t, of.ws, of.mark, of.mark)
}

// TestWebhookSources creates, reads, changes, rotates and deletes sources. A secret is shown once.
func TestWebhookSources(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const sources = "/api/v1/webhook-sources"
		made := w.call(t, http.MethodPost, sources, admin, `{"name":"gh","kind":"github","rules":[{"event":"issues.*","when":[{"path":"body.action","op":"eq","value":"opened"}],"then":{"skill":"look","with":{"x":"{{body.x}}"}}}]}`)
		var n struct{ ID, Path, Secret string }
		if err := json.Unmarshal(made.body, &n); err != nil || made.status != http.StatusCreated || len(n.Secret) != 64 || !strings.HasSuffix(n.Path, "/gh") {
			t.Fatalf("%d %s", made.status, made.body)
		}
		f, err := w.Inbox.Find(t.Context(), strings.Split(n.Path, "/")[2], "gh")
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := w.Inbox.Secrets(t.Context(), f)
		if err != nil || len(secrets) != 1 || secrets[0].Reveal() != n.Secret {
			t.Errorf("the secret that is told is not the one that is stored: %v", err)
		}
		for _, path := range []string{sources, sources + "/gh", sources + "/" + n.ID} {
			got := w.call(t, http.MethodGet, path, member, "")
			if got.status != http.StatusOK || strings.Contains(string(got.body), n.Secret) || !strings.Contains(string(got.body), `"rejected":0`) {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		rotated := w.call(t, http.MethodPost, sources+"/gh/rotate-secret", admin, `{}`)
		var r struct {
			Secret   string
			OldUntil string `json:"oldSecretValidUntil"`
		}
		if err := json.Unmarshal(rotated.body, &r); err != nil || rotated.status != http.StatusOK || len(r.Secret) != 64 || r.Secret == n.Secret || r.OldUntil == "" {
			t.Errorf("rotated: %d %s", rotated.status, rotated.body)
		}
		if given := w.call(t, http.MethodPost, sources+"/gh/rotate-secret", admin, `{"secret":"one of the sender's"}`); given.status != http.StatusOK || strings.Contains(string(given.body), "sender") {
			t.Errorf("rotated to one that was given: %d %s", given.status, given.body)
		}
		if off := w.call(t, http.MethodPatch, sources+"/gh", admin, `{"enabled":false,"rules":[]}`); off.status != http.StatusOK || !strings.Contains(string(off.body), `"enabled":false`) || !strings.Contains(string(off.body), `"rules":[]`) {
			t.Errorf("patched: %d %s", off.status, off.body)
		}
		if gone := w.call(t, http.MethodDelete, sources+"/gh", admin, ""); gone.status != http.StatusNoContent {
			t.Errorf("deleted: %d %s", gone.status, gone.body)
		}
		if got := w.call(t, http.MethodGet, sources+"/gh", member, ""); got.status != http.StatusNotFound {
			t.Errorf("a deleted one: %d", got.status)
		}
	})
}

// TestWebhookSourcesThatAreRefused checks invalid sources, including one with an empty secret.
func TestWebhookSourcesThatAreRefused(t *testing.T) {
	w := onOne(t)
	for body, field := range map[string]string{
		`{"name":"a","kind":"github","secret":""}`:                                                                              "body.secret",
		`{"name":"a","kind":"github","secret":"                    "}`:                                                          "body.secret",
		`{"name":"a","kind":"github","secret":"short"}`:                                                                         "body.secret",
		`{"name":"a","kind":"stripe"}`:                                                                                          "body.secret",
		`{"name":"a","kind":"slack"}`:                                                                                           "body.secret",
		`{"name":"a","kind":"standard","secret":"whsec_bm8gc3VjaCBrZXk"}`:                                                       "body.secret",
		`{"name":"A","kind":"github"}`:                                                                                          "body.name",
		`{"name":"a","kind":"gitlab"}`:                                                                                          "body.kind",
		`{"name":"a","kind":"github","header":"X-Mine"}`:                                                                        "body.header",
		`{"name":"a","kind":"github","rules":[{"then":{"skill":"none"}}]}`:                                                      "body.rules[0].then.skill",
		`{"name":"a","kind":"github","rules":[{"then":{"automation":"none"}}]}`:                                                 "body.rules[0].then.automation",
		`{"name":"a","kind":"github","rules":[{"then":{}}]}`:                                                                    "body.rules[0].then",
		`{"name":"a","kind":"github","rules":[{"then":{"task":"x"}}]}`:                                                          "body.rules[0].then",
		`{"name":"a","kind":"github","rules":[{"then":{"skill":"look","with":{"a":"{{x}}"}}}]}`:                                 "body.rules[0].then.with",
		`{"name":"a","kind":"github","rules":[{"then":{"message":{"thread":{"channel":"operate","address":"x"},"body":"y"}}}]}`: "body.rules[0].then.message.thread.channel",
	} {
		got := w.call(t, http.MethodPost, "/api/v1/webhook-sources", admin, body)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), `"location":"`+field) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for range 2 {
		w.call(t, http.MethodPost, "/api/v1/webhook-sources", admin, `{"name":"a","kind":"token"}`)
	}
	if again := w.call(t, http.MethodPost, "/api/v1/webhook-sources", admin, `{"name":"a","kind":"token"}`); again.status != http.StatusConflict {
		t.Errorf("the name again: %d %s", again.status, again.body)
	}
}

// TestWebhookRulesNameTheirSkill: a rule may not use a skill that runs other skills, because the
// name of those could come from a webhook.
func TestWebhookRulesNameTheirSkill(t *testing.T) {
	more, err := skill.Skills() // run_skill is one of them
	if err != nil {
		t.Fatal(err)
	}
	w := onOne(t, func(d *api.Deps) {
		d.Registry = registry(t, d.DB, more...)
		d.Skills = func(ctx context.Context, ws db.Workspace, s trace.Surface) (*skill.Set, error) {
			set, _, err := d.Registry.Load(ctx, ws, s)
			return set, err
		}
	})
	w.must(t, http.StatusCreated, http.MethodPost, automationsPath, `{"name":"any","skill":"run_skill","input":{"skill":"look"},"schedule":{"cron":"@daily"}}`, nil)
	for then, field := range map[string]string{
		`{"skill":"run_skill","with":{"skill":"{{body.skill}}"}}`: "body.rules[0].then.skill",
		`{"skill":"run_skill","with":{"skill":"look"}}`:           "body.rules[0].then.skill",
		`{"automation":"any"}`:                                    "body.rules[0].then.automation",
	} {
		body := `{"name":"a","kind":"github","rules":[{"then":` + then + `}]}`
		if p := w.refused(t, http.StatusUnprocessableEntity, "invalid", http.MethodPost, "/api/v1/webhook-sources", body); !p.at(field) {
			t.Errorf("%s: %+v", then, p)
		}
	}
}

// TestDeliveries lists, reads and repeats deliveries.
func TestDeliveries(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/webhook-sources", `{"name":"gh","kind":"github"}`, &made)
		source := made.ID
		first, second := w.receive(t, w.Workspace, "gh", "one"), w.receive(t, w.Workspace, "gh", "two")
		list := func(query string) (ids []string, next string) {
			t.Helper()
			got := w.call(t, http.MethodGet, "/api/v1/deliveries"+query, member, "")
			var p struct {
				Items      []struct{ ID string }
				NextCursor *string
			}
			if err := json.Unmarshal(got.body, &p); err != nil || got.status != http.StatusOK || strings.Contains(string(got.body), `"body"`) {
				t.Fatalf("%s: %d %s", query, got.status, got.body)
			}
			for _, i := range p.Items {
				ids = append(ids, i.ID)
			}
			if p.NextCursor != nil {
				next = *p.NextCursor
			}
			return ids, next
		}
		ids, next := list("?direction=inbound&limit=1")
		if fmt.Sprint(ids) != "["+second+"]" || next == "" {
			t.Fatalf("the first page: %v, %q", ids, next)
		}
		if ids, next = list("?limit=1&cursor=" + next); fmt.Sprint(ids) != "["+first+"]" || next != "" {
			t.Errorf("the second page: %v, %q", ids, next)
		}
		for query, want := range map[string]int{
			"?event=nothing": 0, "?event=issues.opened": 2, "?sourceId=" + strings.ToUpper(source): 2, "?sourceId=" + first: 0,
			"?endpointId=" + first: 0, "?direction=outbound": 0, "?direction=inbound&event=issues.opened&sourceId=" + source: 2,
		} {
			if ids, _ = list(query); len(ids) != want {
				t.Errorf("%s: %v, want %d", query, ids, want)
			}
		}
		for query, at := range map[string]string{
			"?direction=inbound&endpointId=" + first: "query.endpointId", "?sourceId=" + source + "&endpointId=" + first: "query.sourceId",
			"?direction=outbound&sourceId=" + source: "query.sourceId",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodGet, "/api/v1/deliveries"+query, ""); !p.at(at) {
				t.Errorf("%s: %+v", query, p)
			}
		}
		if ids, _ = list("?status=parked"); len(ids) != 0 {
			t.Errorf("parked: %v", ids)
		}
		shown := w.call(t, http.MethodGet, "/api/v1/deliveries/"+strings.ToUpper(first), member, "")
		if shown.status != http.StatusOK || !strings.Contains(string(shown.body), `"body":"one"`) || !strings.Contains(string(shown.body), `"x-of":"one"`) {
			t.Errorf("shown: %d %s", shown.status, shown.body)
		}
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.Inbox.Begin(ctx, tx, first, inbox.Try{Action: "skill x"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if busy := w.call(t, http.MethodPost, "/api/v1/deliveries/"+first+"/redeliver", admin, `{}`); busy.status != http.StatusConflict {
			t.Errorf("one that is worked on: %d %s", busy.status, busy.body)
		}
		if again := w.call(t, http.MethodPost, "/api/v1/deliveries/"+strings.ToUpper(second)+"/redeliver", admin, `{}`); again.status != http.StatusOK || !strings.Contains(string(again.body), `"status":"received"`) {
			t.Errorf("redelivered: %d %s", again.status, again.body)
		}
	})
}

// TestSourcesOfGitHubCatchUp: they name their webhook and the secret with the token, which is never
// told; the four go together, and with the kind github only.
func TestSourcesOfGitHubCatchUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const sources = "/api/v1/webhook-sources"
		const hook = `"owner":"acme","repo":"app","hookId":42,"token":{"$secret":"gh-token"}`
		if put := w.call(t, http.MethodPost, "/api/v1/secrets", admin, `{"name":"gh-token","value":"ghp_CANARY_of_the_token"}`); put.status >= 300 {
			t.Fatalf("%d %s", put.status, put.body)
		}
		made := w.call(t, http.MethodPost, sources, admin, `{"name":"gh","kind":"github",`+hook+`}`)
		if made.status != http.StatusCreated || !strings.Contains(string(made.body), hook) {
			t.Fatalf("%d %s", made.status, made.body)
		}
		for body, field := range map[string]string{
			`{"name":"x","kind":"stripe","secret":"a secret of the sender",` + hook + `}`:                                                     "hookId",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","hookId":42}`:                                                            "token",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","token":{"$secret":"gh-token"}}`:                                         "hookId",
			`{"name":"x","kind":"github","owner":"../..","repo":"..","hookId":42,"token":{"$secret":"gh-token"}}`:                             "owner",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","hookId":42,"token":"ghp_CANARY_of_the_token"}`:                          "token",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","hookId":42,"token":{"$secret":"no name"}}`:                              "token",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","hookId":-1,"token":{"$secret":"gh-token"}}`:                             "hookId",
			`{"name":"x","kind":"github","token":{"$secret":"gh-token"}}`:                                                                     "owner",
			`{"name":"x","kind":"github","owner":"acme","repo":"app","hookId":42,"token":{"$secret":"gh-token","value":"ghp_CANARY_either"}}`: "token",
		} {
			got := w.call(t, http.MethodPost, sources, admin, body)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), field) || strings.Contains(string(got.body), "CANARY") {
				t.Errorf("%s: %d %s", body, got.status, got.body)
			}
		}
		if other := w.call(t, http.MethodPatch, sources+"/gh", admin, `{"repo":"other","hookId":43}`); other.status != http.StatusOK || !strings.Contains(string(other.body), `"owner":"acme","repo":"other","hookId":43,"token":{"$secret":"gh-token"}`) {
			t.Errorf("another repository: %d %s", other.status, other.body)
		}
		if same := w.call(t, http.MethodPatch, sources+"/gh", admin, `{"enabled":true}`); !strings.Contains(string(same.body), `"repo":"other"`) {
			t.Errorf("nothing of it is given: %d %s", same.status, same.body)
		}
		if none := w.call(t, http.MethodPatch, sources+"/gh", admin, `{"owner":"","repo":"","hookId":0}`); none.status != http.StatusOK || strings.Contains(string(none.body), "hookId") || strings.Contains(string(none.body), "token") {
			t.Errorf("none any more: %d %s", none.status, none.body)
		}
	})
}

// TestEmptySecretsOfSourcesAreRefused: anyone could sign with them.
func TestEmptySecretsOfSourcesAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const sources = "/api/v1/webhook-sources"
		if made := w.call(t, http.MethodPost, sources, admin, `{"name":"empty","kind":"github"}`); made.status != http.StatusCreated {
			t.Fatalf("%d %s", made.status, made.body)
		}
		for _, kind := range inbox.Kinds() {
			for _, value := range []string{"", " ", "                    ", "\\t\\n\\t\\n\\t\\n\\t\\n\\t\\n\\t\\n\\t\\n\\t\\n", "whsec_"} {
				got := w.call(t, http.MethodPost, sources, admin, fmt.Sprintf(`{"name":"x","kind":%q,"secret":"%s"}`, kind, value))
				if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "secret") {
					t.Errorf("%s, %q: %d %s", kind, value, got.status, got.body)
				}
				if got := w.call(t, http.MethodPost, sources+"/empty/rotate-secret", admin, fmt.Sprintf(`{"secret":"%s"}`, value)); got.status != http.StatusUnprocessableEntity {
					t.Errorf("rotated to %q: %d %s", value, got.status, got.body)
				}
			}
		}
	})
}
