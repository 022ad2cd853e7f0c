package edge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// operated returns the built API over a migrated database. It accepts the token of the shipped
// events. source returns the variables with which the function finds the database, given its URL.
func operated(t *testing.T, source func(c *cloud, login string) map[string]string) *rig.Function {
	t.Helper()
	c := newCloud(t)
	migrate := c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner})
	if r := invoke(t, migrate, []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	return c.start(t, "operate", rig.Env(map[string]string{"ADMIN_TOKEN": "open-sesame-open-sesame"}, source(c, dbtest.AsLogin(c.owner))))
}

func byURL(_ *cloud, login string) map[string]string { return map[string]string{"DATABASE_URL": login} }

// response is a response as its sender receives it.
type response struct {
	StatusCode int
	Headers    map[string]string
	Body       string
}

func streamed(t *testing.T, r *rig.Result) response {
	t.Helper()
	prelude, body, ok := bytes.Cut(r.Payload, make([]byte, 8))
	out := response{Body: string(body)}
	if !ok || !r.Streamed || r.FunctionError != nil {
		t.Fatalf("streamed %v, %v: %s\n%s", r.Streamed, r.FunctionError, r.Payload, r.Logs)
	}
	if err := json.Unmarshal(prelude, &out); err != nil {
		t.Fatalf("%s: %v", prelude, err)
	}
	out.Body = string(body)
	return out
}

// create creates an objective through an HTTP API event, and returns its Location.
func create(t *testing.T, f *rig.Function) string {
	t.Helper()
	r := invoke(t, f, event(t, "operate", "03_http_api"))
	var got response
	if err := json.Unmarshal(r.Payload, &got); err != nil || r.Streamed || got.StatusCode != http.StatusCreated ||
		!strings.Contains(got.Body, "Count the geese") {
		t.Fatalf("%v, %v: %s\n%s", err, r.FunctionError, r.Payload, r.Logs)
	}
	return got.Headers["Location"]
}

// The built function responds to each kind of event in the form that its sender expects.
func TestOperate(t *testing.T) {
	f := operated(t, byURL)
	health := streamed(t, invoke(t, f, event(t, "operate", "01_rest_stream")))
	if health.StatusCode != http.StatusOK || health.Headers["X-Content-Type-Options"] != "nosniff" {
		t.Errorf("health: %+v", health)
	}
	if lanes := streamed(t, invoke(t, f, event(t, "operate", "02_function_url"))); lanes.StatusCode != http.StatusOK || !json.Valid([]byte(lanes.Body)) {
		t.Errorf("lanes: %+v", lanes)
	}
	if at := create(t, f); !strings.HasPrefix(at, "/live/api/v1/objectives/") {
		t.Errorf("the objective is at %s", at)
	}
	stranger := bytes.ReplaceAll(event(t, "operate", "02_function_url"), []byte("open-sesame-open-sesame"), []byte("guess"))
	if r := streamed(t, invoke(t, f, stranger)); r.StatusCode != http.StatusUnauthorized || r.Headers["Content-Type"] != "application/problem+json" {
		t.Errorf("a stranger got %+v", r)
	}
	kicked := bytes.ReplaceAll(event(t, "operate", "02_function_url"), []byte(`"/api/v1/lanes"`), []byte(`"/api/v1/heartbeat/run"`))
	kicked = bytes.ReplaceAll(bytes.ReplaceAll(kicked, []byte(`"method": "GET"`), []byte(`"method": "POST"`)), []byte("limit=10"), nil)
	r := invoke(t, f, kicked)
	if got := streamed(t, r); got.StatusCode != http.StatusAccepted {
		t.Errorf("a beat behind the answer: %+v", got)
	}
	if !strings.Contains(r.Logs, `"msg":"beat ended"`) {
		t.Errorf("the invocation ended before the beat: %s", r.Logs)
	}
}

// A follower receives an event while the stream is open. A follower that reconnects with the last
// id misses nothing.
func TestOperateStreamsEvents(t *testing.T) {
	f := operated(t, byURL)
	patient := rig.WithTimeout(5 * time.Minute) // open transactions of other tests in the cluster delay events
	rest := event(t, "operate", "04_events_stream")
	atURL := []byte(`{"version":"2.0","rawPath":"/api/v1/events","rawQueryString":"kinds=objective.created",
		"headers":{"accept":"text/event-stream","authorization":"Bearer open-sesame-open-sesame"},
		"requestContext":{"stage":"$default","domainName":"u7x.lambda-url.eu-central-1.on.aws","http":{"method":"GET","sourceIp":"198.51.100.7"}}}`)
	for name, payload := range map[string][]byte{"REST API": rest, "function URL": atURL} {
		var inv *rig.Invocation
		open := func(last string) *bufio.Reader {
			asked := payload
			if last != "" {
				back := bytes.Replace(payload, []byte(`"headers": {`), []byte(`"headers":{`), 1)
				back = bytes.Replace(back, []byte(`"multiValueHeaders": {`), []byte(`"multiValueHeaders": {"Last-Event-ID": ["`+last+`"], `), 1)
				asked = bytes.Replace(back, []byte(`"headers":{`), []byte(`"headers":{"last-event-id":"`+last+`",`), 1)
			}
			var err error
			if inv, err = f.Begin(t.Context(), asked, patient); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(inv.Body())
		}
		follower := open("")
		if _, err := follower.ReadString(0); err != nil { // the prelude
			t.Fatalf("%s: %v", name, err)
		}
		position := next(t, follower, "id: ") // it follows from here on
		id := seen(t, open, follower, position, create(t, f))
		if err := inv.Kill(); err != nil { // it was still running
			t.Errorf("%s: %v", name, err)
		}

		missed := create(t, f)
		seen(t, open, open(id), id, missed)
		if err := inv.Kill(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// seen reads the stream until the event of the objective at a Location arrives, and returns the
// event's id. Other events may arrive first, because a position is before all events that were not
// settled when it was returned. A stream that has reached its time limit is opened again after the
// last position.
func seen(t *testing.T, open func(last string) *bufio.Reader, r *bufio.Reader, last, at string) (id string) {
	t.Helper()
	for opened := 1; ; {
		line, err := r.ReadString('\n')
		switch {
		case err == io.EOF && opened < 5:
			r = open(last)
			opened++
		case err != nil:
			t.Fatal(err)
		}
		if position, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(position)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event struct{ ID, Subject string }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(at, "/"+event.Subject) {
			return event.ID
		}
	}
}

// goose is a model that writes its first word, and the others when rest is closed.
func goose(t *testing.T, rest <-chan struct{}) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta, end string) {
			fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"goose","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, end)
			_ = http.NewResponseController(w).Flush()
		}
		say(`{"role":"assistant","content":"Seven"}`, `null`)
		select {
		case <-rest:
		case <-r.Context().Done():
		}
		say(`{"content":" geese."}`, `null`)
		say(`{}`, `"stop"`)
		fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"goose","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server
}

// The client receives the model's first word before the model has written the second one, for each
// kind of event that streams.
func TestOperateSpeaksWithTheModel(t *testing.T) {
	rest := make(chan struct{})
	model := goose(t, rest)
	f := operated(t, func(_ *cloud, login string) map[string]string {
		return map[string]string{"DATABASE_URL": login, "LLM_PROVIDER": "openai", "OPENAI_BASE_URL": model.URL + "/v1", "LLM_MODEL": "goose"}
	})
	atURL := []byte(`{"version":"2.0","rawPath":"/api/v1/operate","rawQueryString":"","body":"{\"message\": \"How many?\", \"stream\": true}",
		"headers":{"accept":"text/event-stream","content-type":"application/json","authorization":"Bearer open-sesame-open-sesame"},
		"requestContext":{"stage":"$default","domainName":"u7x.lambda-url.eu-central-1.on.aws","http":{"method":"POST","sourceIp":"198.51.100.7"}}}`)
	for name, payload := range map[string][]byte{"REST API": event(t, "operate", "05_talk_stream"), "function URL": atURL} {
		inv, err := f.Begin(t.Context(), payload)
		if err != nil {
			t.Fatal(err)
		}
		client := bufio.NewReader(inv.Body())
		if first := next(t, client, "data: "); first != `{"text":"Seven"}` {
			t.Errorf("%s: the first word is %s", name, first)
		}
		rest <- struct{}{}
		next(t, client, "event: done")
		if done := next(t, client, "data: "); !strings.Contains(done, `"answer":"Seven geese."`) || !strings.Contains(done, `"status":"completed"`) {
			t.Errorf("%s: done is %s", name, done)
		}
		if _, err := io.Copy(io.Discard, client); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the database no longer accepts the credentials of a secret, one request gets a retryable
// error, and the next one is served with the new credentials.
func TestOperateAfterARotation(t *testing.T) {
	rotate := func() {}
	f := operated(t, func(c *cloud, login string) map[string]string {
		old, err := url.Parse(login)
		if err != nil {
			t.Fatal(err)
		}
		old.User = url.UserPassword("nobody", "hunter2")
		c.SetSecret(secretID, old.String())
		rotate = func() { c.SetSecret(secretID, login) }
		return map[string]string{"DATABASE_SECRET_ARN": secretID}
	})
	lanes := event(t, "operate", "02_function_url")
	ask := func() response { return streamed(t, invoke(t, f, lanes)) }
	if got := ask(); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("with the old credentials: %+v", got)
	}
	rotate()
	if got := ask(); got.StatusCode != http.StatusServiceUnavailable || got.Headers["Content-Type"] != "application/problem+json" {
		t.Errorf("right after the rotation: %+v", got)
	}
	if got := ask(); got.StatusCode != http.StatusOK {
		t.Errorf("after it: %+v", got)
	}
}

// The built function accepts the token in a secret, and no other.
func TestOperateWithATokenInASecret(t *testing.T) {
	const arn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:token-Ab12Cd"
	f := operated(t, func(c *cloud, login string) map[string]string {
		c.SetSecret(arn, `{"ADMIN_TOKEN":"sesame-in-a-secret"}`)
		return map[string]string{"DATABASE_URL": login, "ADMIN_TOKEN": "", "ADMIN_TOKEN_SECRET_ARN": arn}
	})
	lanes := event(t, "operate", "02_function_url")
	if got := streamed(t, invoke(t, f, lanes)); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("with another token: %+v", got)
	}
	known := invoke(t, f, bytes.ReplaceAll(lanes, []byte("open-sesame-open-sesame"), []byte("sesame-in-a-secret")))
	if got := streamed(t, known); got.StatusCode != http.StatusOK {
		t.Errorf("with the secret's: %+v", got)
	}
	if strings.Contains(known.Logs, "sesame-in-a-secret") {
		t.Errorf("the log shows it: %s", known.Logs)
	}
}

// next returns the rest of the next line with this prefix.
func next(t *testing.T, r *bufio.Reader, begins string) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if rest, ok := strings.CutPrefix(strings.TrimLeft(line, "\x00"), begins); ok {
			return strings.TrimSpace(rest)
		}
		if err == io.EOF {
			t.Fatalf("the stream ended before a line with %q", begins)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
