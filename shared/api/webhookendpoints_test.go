package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestWebhookEndpoints registers, changes, tests, rotates and deletes endpoints. A secret is shown
// once.
func TestWebhookEndpoints(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const endpoints = "/api/v1/webhook-endpoints"
		var status atomic.Int32
		status.Store(204)
		r := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(status.Load())) }))
		t.Cleanup(r.Close)
		var e struct {
			ID, Secret, URL string
			Events          []string
			Enabled         bool
		}
		w.must(t, 201, http.MethodPost, endpoints, `{"url":"`+r.URL+`/x","events":["task.status_changed","agent.stale","agent.stale"],"description":"d"}`, &e)
		if !strings.HasPrefix(e.Secret, "whsec_") || e.URL != r.URL+"/x" || len(e.Events) != 2 || !e.Enabled {
			t.Errorf("%+v", e)
		}
		for _, path := range []string{endpoints, endpoints + "/" + e.ID} {
			if got := w.call(t, http.MethodGet, path, member, ""); got.status != 200 || strings.Contains(string(got.body), "whsec_") || !strings.Contains(string(got.body), e.ID) {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		var d struct {
			ID, Direction, EndpointID, Event, Status, Error string
			StatusCode                                      int
		}
		w.must(t, 200, http.MethodPost, endpoints+"/"+strings.ToUpper(e.ID)+"/test", `{}`, &d)
		if d.Direction != "outbound" || d.EndpointID != e.ID || d.Event != "webhook.test" || d.Status != "delivered" || d.StatusCode != 204 {
			t.Errorf("%+v", d)
		}
		status.Store(500)
		w.must(t, 200, http.MethodPost, endpoints+"/"+e.ID+"/test", `{}`, &d)
		if d.Status != "failed" || d.StatusCode != 500 || d.Error == "" {
			t.Errorf("%+v", d)
		}
		var list struct {
			Items      []struct{ ID, Status string }
			NextCursor string
		}
		w.must(t, 200, http.MethodGet, "/api/v1/deliveries?direction=outbound&limit=1&endpointId="+e.ID, "", &list)
		if len(list.Items) != 1 || list.Items[0].ID != d.ID || list.NextCursor == "" {
			t.Errorf("%+v", list)
		}
		w.must(t, 200, http.MethodGet, "/api/v1/deliveries?direction=outbound&limit=1&cursor="+list.NextCursor, "", &list)
		if len(list.Items) != 1 || list.Items[0].Status != "delivered" {
			t.Errorf("%+v", list)
		}
		if whole := w.call(t, http.MethodGet, "/api/v1/deliveries/"+d.ID, member, ""); whole.status != 200 || !strings.Contains(string(whole.body), `\"event\":\"webhook.test\"`) {
			t.Errorf("%d %s", whole.status, whole.body)
		}
		w.must(t, 200, http.MethodPost, "/api/v1/deliveries/"+d.ID+"/redeliver", `{}`, nil)
		var rotated struct{ Secret, OldSecretValidUntil string }
		w.must(t, 200, http.MethodPost, endpoints+"/"+e.ID+"/rotate-secret", `{}`, &rotated)
		if !strings.HasPrefix(rotated.Secret, "whsec_") || rotated.Secret == e.Secret || rotated.OldSecretValidUntil == "" {
			t.Errorf("%+v", rotated)
		}
		w.must(t, 200, http.MethodPatch, endpoints+"/"+e.ID, `{"enabled":false,"events":["*"]}`, &e)
		if e.Enabled || len(e.Events) != 1 {
			t.Errorf("%+v", e)
		}
		if off := w.call(t, http.MethodPost, "/api/v1/deliveries/"+d.ID+"/redeliver", admin, `{}`); off.status != http.StatusConflict {
			t.Errorf("to a disabled one: %d %s", off.status, off.body)
		}
		if gone := w.call(t, http.MethodDelete, endpoints+"/"+e.ID, admin, ""); gone.status != http.StatusNoContent {
			t.Errorf("%d %s", gone.status, gone.body)
		}
	})
}

// TestEndpointsThatAreRefused: private addresses, also behind names; events that don't exist; URLs
// that don't answer the challenge.
func TestEndpointsThatAreRefused(t *testing.T) {
	w := onOne(t)
	var echo atomic.Bool
	r := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		var told struct{ Event, Challenge string }
		raw, _ := io.ReadAll(req.Body)
		if err := json.Unmarshal(raw, &told); err != nil || told.Event != "webhook.challenge" {
			t.Errorf("%s: %v", raw, err)
		}
		if echo.Load() {
			_, _ = rw.Write([]byte(`{"challenge":"` + told.Challenge + `"}`))
			return
		}
		_, _ = rw.Write([]byte(`{"challenge":"another text"}`))
	}))
	t.Cleanup(r.Close)
	for body, field := range map[string]string{
		`{"url":"https://10.0.0.1/","events":["*"]}`:                       "body.url",
		`{"url":"https://169.254.169.254/latest","events":["*"]}`:          "body.url",
		`{"url":"https://[::1]/","events":["*"]}`:                          "body.url",
		`{"url":"https://0x7f.1/","events":["*"]}`:                         "body.url",
		`{"url":"https://inside.example/","events":["*"]}`:                 "body.url",
		`{"url":"http://outside.example/","events":["*"]}`:                 "body.url",
		`{"url":"https://user:pass@outside.example/","events":["*"]}`:      "body.url",
		`{"url":"ftp://outside.example/","events":["*"]}`:                  "body.url",
		`{"url":"https://outside.example/","events":["task.gone"]}`:        "body.events[0]",
		`{"url":"https://outside.example/","events":[]}`:                   "body.events",
		`{"url":"` + r.URL + `","events":["*"],"ownershipChallenge":true}`: "body.url",
	} {
		got := w.call(t, http.MethodPost, "/api/v1/webhook-endpoints", admin, body)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), `"location":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	echo.Store(true)
	var e struct{ ID string }
	w.must(t, 201, http.MethodPost, "/api/v1/webhook-endpoints", `{"url":"`+r.URL+`","events":["*"],"ownershipChallenge":true}`, &e)
	echo.Store(false)
	if moved := w.call(t, http.MethodPatch, "/api/v1/webhook-endpoints/"+e.ID, admin, `{"url":"`+r.URL+`/elsewhere"}`); moved.status != http.StatusUnprocessableEntity {
		t.Errorf("a new URL without a challenge: %d %s", moved.status, moved.body)
	}
	if same := w.call(t, http.MethodPatch, "/api/v1/webhook-endpoints/"+e.ID, admin, `{"description":"x"}`); same.status != 200 {
		t.Errorf("%d %s", same.status, same.body)
	}
}

// TestNotifications are a setting of the workspace.
func TestNotifications(t *testing.T) {
	w := onOne(t)
	path := "/api/v1/workspaces/" + string(w.Workspace)
	var told struct {
		Settings struct {
			StepsPerRun   int
			Notifications []struct {
				Channel, Address string
				Events           []string
			}
		}
	}
	w.must(t, 200, http.MethodPatch, path, `{"settings":{"stepsPerRun":7,"notifications":[{"channel":"slack","address":"C024BE91L","events":["approval.requested","agent.stale"]}]}}`, nil)
	w.must(t, 200, http.MethodPatch, path, `{"settings":{"stepsPerRun":8}}`, nil)
	w.must(t, 200, http.MethodGet, path, "", &told)
	if n := told.Settings.Notifications; told.Settings.StepsPerRun != 8 || len(n) != 1 || n[0].Channel != "slack" || n[0].Address != "C024BE91L" || len(n[0].Events) != 2 {
		t.Errorf("%+v", told)
	}
	for body, field := range map[string]string{
		`{"channel":"slack","address":"#general","events":["*"]}`: "body.settings.notifications[0].address",
		`{"channel":"pigeon","address":"x","events":["*"]}`:       "body.settings.notifications[0].channel",
		`{"channel":"email","address":"a@b.example","events":[]}`: "body.settings.notifications[0].events",
	} {
		got := w.call(t, http.MethodPatch, path, admin, `{"settings":{"notifications":[`+body+`]}}`)
		if got.status != 422 || !strings.Contains(string(got.body), field) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := w.call(t, http.MethodPatch, path, admin, `{"settings":{"notifications":null}}`); got.status != 200 || strings.Contains(string(got.body), "notifications") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
