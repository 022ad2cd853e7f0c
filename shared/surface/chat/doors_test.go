package chat_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestASiteReachesOnlyWhatItOpened: the names of visitors are one namespace, but the key of a site is
// public. Who names another's visitor with it gets nothing.
func TestASiteReachesOnlyWhatItOpened(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Reason.Model = greeter{}
		const hi, said = `{"message":"Hi."}`, `{"messages":[{"role":"user","content":"Hi."}]}`
		send := func(token, visitor string) reply {
			return w.call(t, http.MethodPost, messages, token, hi, "X-Session-Id", visitor)
		}
		older, err := w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: chat.Channel, Address: "4710"})
		if err != nil {
			t.Fatal(err)
		}
		program, page := send(key, "4711"), send(site, "4712")
		if program.status != 200 || page.status != 200 {
			t.Fatalf("%d %s, %d %s", program.status, program.body, page.status, page.body)
		}
		for _, c := range []struct{ what, token, visitor, thread, execution string }{
			{"a program's", site, "4711", program.header.Get("X-Thread-Id"), program.header.Get("X-Execution-Id")},
			{"another site's", other, "4712", page.header.Get("X-Thread-Id"), page.header.Get("X-Execution-Id")},
			{"an older one", site, "4710", older.ID, ""},
		} {
			for _, rq := range []struct{ method, path, body string }{
				{http.MethodPost, messages, hi},
				{http.MethodPost, messages, `{"message":"Hi.","stream":true}`},
				{http.MethodPost, completions, said},
				{http.MethodPost, responses, `{"input":"Hi."}`},
				{http.MethodPost, responses, `{"input":"Hi.","previous_response_id":"resp_` + c.execution + `"}`},
				{http.MethodPost, "/api/v1/chat/" + c.thread + "/messages", hi},
				{http.MethodGet, "/api/v1/chat/" + c.thread + "/messages", ""},
				{http.MethodGet, "/api/v1/chat/" + c.thread + "/executions/" + c.execution + "/events", ""},
				{http.MethodGet, responses + "/resp_" + c.execution, ""},
				{http.MethodGet, responses + "/resp_" + c.execution + "?stream=true", ""},
			} {
				headers := []string{"X-Session-Id", c.visitor}
				if c.token == other {
					headers = append(headers, "Origin", "https://shop.example")
				}
				got := w.call(t, rq.method, rq.path, c.token, rq.body, headers...)
				if got.status != 404 || !strings.Contains(got.body, "not_found") || got.header.Get("X-Thread-Id") != "" {
					t.Errorf("%s: %s %s %s: %d %s", c.what, rq.method, rq.path, rq.body, got.status, got.body)
				}
			}
		}
		if got := send(site, "4711"); !strings.Contains(got.body, "not begun with this site key: use the key that began it") {
			t.Errorf("who takes another's name is told %s", got.body)
		}
		for _, visitor := range []string{"4710", "4711", "4712"} {
			if got := send(key, visitor); got.status != 200 {
				t.Errorf("a program to %s: %d %s", visitor, got.status, got.body)
			}
		}
		if got := send(site, "4712"); got.status != 200 || got.header.Get("X-Thread-Id") != page.header.Get("X-Thread-Id") {
			t.Errorf("a visitor goes on with %d %s", got.status, got.body)
		}
		path := responses + "/resp_" + page.header.Get("X-Execution-Id")
		for _, token := range []string{site, key, admin} {
			if got := w.call(t, http.MethodGet, path, token, ""); got.status != 200 {
				t.Errorf("%s reads a response: %d %s", token, got.status, got.body)
			}
		}
		for user, want := range map[string]int{"4712": 200, "4710": 404} {
			if got := w.call(t, http.MethodGet, path+"?user="+user, site, ""); got.status != want {
				t.Errorf("%s reads the response of 4712: %d %s", user, got.status, got.body)
			}
		}
	})
}

// TestASlashAtTheEnd: clients that join a path of parts send one.
func TestASlashAtTheEnd(t *testing.T) {
	w := onOne(t)
	w.Reason.Model = greeter{}
	for at, body := range map[string]string{messages: `{"message":"Hi."}`, completions: `{"messages":[{"role":"user","content":"Hi."}]}`} {
		if got := w.call(t, http.MethodPost, at+"/", site, body); got.status != 200 {
			t.Errorf("%s: %d %s", at, got.status, got.body)
		}
	}
	if got := w.call(t, http.MethodGet, "/v1/models/", site, ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// The log line of a request names its method and its route. A method of which the route knows nothing
// is "other", because a caller chooses its name.
func TestTheLogNamesMethodAndRoute(t *testing.T) {
	w := onOne(t)
	for _, method := range []string{http.MethodGet, "SING"} {
		w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/v1/models", nil))
	}
	said := w.logs.String()
	for _, want := range []string{`"method":"GET","route":"/v1/models"`, `"method":"other","route":"/v1/models"`} {
		if !strings.Contains(said, want) {
			t.Errorf("%s is missing in\n%s", want, said)
		}
	}
}

// A client that leaves before its message is stored is no failure of the server.
func TestAClientThatLeavesIsNoError(t *testing.T) {
	w := onOne(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, http.MethodGet, "/v1/responses/resp_"+ids(), nil)
	r.Header.Set("Authorization", "Bearer "+admin)
	w.ServeHTTP(httptest.NewRecorder(), r)
	if said := w.logs.String(); !strings.Contains(said, `"level":"INFO","msg":"a request failed"`) {
		t.Errorf("got %s", said)
	}
}
