package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

const operatePath = "/api/v1/operate"

// turned is the end of a turn as clients read it.
type turned struct {
	Answer, Status, Reason, ExecutionID, TraceID, ThreadID string
	Usage                                                  struct{ PromptTokens, CompletionTokens, TotalTokens int64 }
}

// sent is an event of a stream.
type sent struct {
	id, kind string
	data     json.RawMessage
}

// eventsOf reads all events of a stream.
func eventsOf(t testing.TB, body string) []sent {
	t.Helper()
	var out []sent
	for block := range strings.SplitSeq(body, "\n\n") {
		var e sent
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = json.RawMessage(value)
			}
		}
		if e.kind != "" {
			out = append(out, e)
		}
	}
	return out
}

// wordsOf joins the pieces of an answer.
func wordsOf(t testing.TB, events []sent) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		if e.kind == "delta" {
			var d struct{ Text string }
			decode(t, e.data, &d)
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

func TestATurnByHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var first, second turned
		got := w.must(t, 200, http.MethodPost, operatePath, `{"message":"Hello."}`, &first)
		if first.Status != "completed" || !strings.HasPrefix(first.Answer, "[demo model]") || first.ThreadID == "" || first.Usage.TotalTokens == 0 ||
			first.TraceID != got.header.Get("X-Trace-Id") || !strings.HasPrefix(first.TraceID, "op_") {
			t.Errorf("got %+v", first)
		}
		w.must(t, 200, http.MethodPost, operatePath, `{"message":"Again.","threadId":"`+strings.ToUpper(first.ThreadID)+`","stream":false,"multitask":"reject"}`, &second)
		if second.ThreadID != first.ThreadID || second.ExecutionID == first.ExecutionID {
			t.Errorf("got %+v", second)
		}
		var e struct {
			Status, Surface string
			TokenUsage      struct{ TotalTokens int64 }
		}
		w.must(t, 200, http.MethodGet, "/api/v1/executions/"+first.ExecutionID, "", &e)
		if e.Status != "completed" || e.Surface != "operate" || e.TokenUsage.TotalTokens != first.Usage.TotalTokens {
			t.Errorf("its execution is %+v", e)
		}
	})
}

func TestATurnIsStreamedAndResumed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		got := w.must(t, 200, http.MethodPost, operatePath, `{"message":"Hello.","stream":true}`, nil)
		id := got.header.Get("X-Execution-Id")
		if got.header.Get("Content-Type") != "text/event-stream" || id == "" || got.header.Get("X-Thread-Id") == "" {
			t.Errorf("answered with %v", got.header)
		}
		events := eventsOf(t, string(got.body))
		last := events[len(events)-1]
		var end turned
		decode(t, last.data, &end)
		if last.kind != "done" || end.Status != "completed" || end.ExecutionID != id || wordsOf(t, events) != end.Answer || len(events) < 5 {
			t.Fatalf("told %+v", events)
		}
		for i, e := range events {
			back := request(http.MethodGet, "/api/v1/executions/"+id+"/events", owner, "")
			if i%2 == 0 {
				back.Header.Set("Last-Event-ID", e.id)
			} else {
				back = request(http.MethodGet, "/api/v1/executions/"+id+"/events?after="+e.id, owner, "")
			}
			rest := eventsOf(t, string(w.send(t, back).body))
			if got := wordsOf(t, events[:i+1]) + wordsOf(t, rest); got != end.Answer {
				t.Errorf("behind %s comes %+v", e.id, rest)
			}
			if end := rest[len(rest)-1]; end.kind != "done" || string(end.data) != string(last.data) {
				t.Errorf("behind %s it ends with %s", e.id, end.data)
			}
		}
	})
}

func TestTurnsThatAreRefused(t *testing.T) {
	w := onOne(t)
	for body, at := range map[string]string{
		`{}`:                                "body",
		`{"message":""}`:                    "body.message",
		`{"message":" \n "}`:                "body.message",
		`{"message":1}`:                     "body.message",
		`{"message":"x","steam":true}`:      "body.steam",
		`{"message":"x","multitask":"now"}`: "body.multitask",
		`{"message":"x","threadId":"x"}`:    "body.threadId",
		`{"message":"` + strings.Repeat("x", 16<<10+1) + `"}`: "body.message",
		`{"message":"` + strings.Repeat("é", 8<<10+1) + `"}`:  "body.message",
	} {
		if p := w.refused(t, 422, "invalid", http.MethodPost, operatePath, body); !p.at(at) {
			t.Errorf("%.80s: %+v", body, p)
		}
	}
	w.refused(t, 422, "invalid", http.MethodPost, operatePath, `{"message":"a\u0000b"}`)
	w.refused(t, 404, "not_found", http.MethodPost, operatePath, `{"message":"x","threadId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`)
	w.refused(t, 404, "not_found", http.MethodPost, operatePath, `{"message":"x","stream":true,"threadId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`)
	events := "/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/events"
	w.refused(t, 404, "not_found", http.MethodGet, events, "")
	if p := w.refused(t, 422, "invalid", http.MethodGet, events+"?after=x", ""); !p.at("query.after") {
		t.Errorf("got %+v", p)
	}
	w.refused(t, 422, "invalid", http.MethodGet, events+"?before=1.1", "")
	var held struct{ Token string }
	w.must(t, 200, http.MethodPost, "/api/v1/lanes/operate/acquire", `{"holder":"me"}`, &held)
	if p := w.refused(t, 409, "busy", http.MethodPost, operatePath, `{"message":"x","multitask":"reject","stream":true}`); p.Holder != "me" || p.ExpiresAt == nil {
		t.Errorf("got %+v", p)
	}
}

func TestAMemberTalksToo(t *testing.T) {
	w := onOne(t)
	if got := w.call(t, http.MethodPost, operatePath, member, `{"message":"Hello."}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A follower of an execution without events causes one query per second, and reconnects after a
// minute.
func TestFollowersLookSeldom(t *testing.T) {
	if got, want := (sse.Streams{}).OrDefault(), (sse.Streams{Every: time.Second, For: time.Minute, Quiet: 10 * time.Second, Most: 20}); got != want {
		t.Errorf("streams are served %+v", got)
	}
	w := onOne(t, func(d *api.Deps) { d.Streams = &sse.Streams{For: 300 * time.Millisecond} })
	var e struct{ ID string }
	w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"ada"}`, &e)
	cost := func(method string) db.Stats {
		before := w.Deps.DB.Stats()
		w.must(t, 200, method, "/api/v1/executions/"+e.ID+"/events", "", nil)
		return w.Deps.DB.Stats().Sub(before)
	}
	if once, followed := cost(http.MethodHead), cost(http.MethodGet); followed != once {
		t.Errorf("to follow it cost %+v, a look costs %+v", followed, once)
	}
}

// slow is a model that writes a word and continues when the test permits it.
type slow struct{ written, goOn chan struct{} }

func (slow) Name() string { return "slow" }

func (m slow) Generate(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if onDelta != nil {
		onDelta(llm.Delta{Text: "One "})
	}
	close(m.written)
	<-m.goOn
	if onDelta != nil {
		onDelta(llm.Delta{Text: "two."})
	}
	return llm.Response{Message: llm.Message{Role: llm.RoleAssistant, Text: "One two."}, StopReason: llm.StopEndTurn, Model: "slow"}, nil
}

// A repeated request for a streamed turn is answered with the execution to follow.
func TestAStreamedTurnThatIsSentAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		send := func() result {
			t.Helper()
			r := request(http.MethodPost, operatePath, owner, `{"message":"Hello.","stream":true}`)
			r.Header.Set("Idempotency-Key", "k")
			return w.send(t, r)
		}
		first := send()
		again := send()
		var p struct{ Code, ExecutionID string }
		if err := json.Unmarshal(again.body, &p); err != nil || again.status != 409 || p.Code != "answer_not_kept" ||
			p.ExecutionID == "" || p.ExecutionID != first.header.Get("X-Execution-Id") {
			t.Errorf("%d %s, %v", again.status, again.body, err)
		}
		followed := w.call(t, http.MethodGet, "/api/v1/executions/"+p.ExecutionID+"/events", owner, "")
		if !strings.Contains(string(followed.body), "event: done") {
			t.Errorf("%d %s", followed.status, followed.body)
		}
	})
}

// streams begins a turn over a network connection and returns the response.
func (w *world) streams(ctx context.Context, t *testing.T) *http.Response {
	t.Helper()
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+operatePath, strings.NewReader(`{"message":"Count.","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+owner)
	r.Header.Set("Content-Type", "application/json")
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// A slow turn sends comments, so that no proxy closes the connection.
func TestASlowTurnSaysThatItGoesOn(t *testing.T) {
	w := onOne(t, func(d *api.Deps) { d.Streams.Quiet = 5 * time.Millisecond })
	m := slow{make(chan struct{}), make(chan struct{})}
	w.Operate.Reason.Model = m
	resp := w.streams(t.Context(), t)
	lines, still := bufio.NewScanner(resp.Body), 0
	for lines.Scan() && still < 3 {
		if lines.Text() == ": still here" {
			still++
		}
	}
	close(m.goOn)
	rest := []string{lines.Text()}
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if all := strings.Join(rest, "\n"); lines.Err() != nil || !strings.Contains(all, "event: done") {
		t.Errorf("it ends with %q, %v", all, lines.Err())
	}
}

// TestWhoLeavesLosesNothing: a client disconnects after the first word of an answer. The turn
// continues, and its complete events can be read later.
func TestWhoLeavesLosesNothing(t *testing.T) {
	w := onOne(t, func(d *api.Deps) { d.Streams.For = time.Minute })
	m := slow{make(chan struct{}), make(chan struct{})}
	w.Operate.Reason.Model = m
	ctx, leave := context.WithCancel(t.Context())
	resp := w.streams(ctx, t)
	first := make([]byte, 1<<10)
	for !strings.Contains(string(first), `"One "`) { // sent before the model has ended
		if _, err := resp.Body.Read(first); err != nil {
			t.Fatal(err)
		}
	}
	<-m.written
	leave()
	id := resp.Header.Get("X-Execution-Id")
	followed := make(chan result, 1)
	go func() {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, request(http.MethodGet, "/api/v1/executions/"+id+"/events", owner, ""))
		followed <- result{rec.Code, rec.Header(), rec.Body.Bytes()}
	}()
	close(m.goOn)
	events := eventsOf(t, string((<-followed).body))
	if got := wordsOf(t, events); got != "One two." || events[len(events)-1].kind != "done" {
		t.Errorf("told %+v", events)
	}
	said, err := w.Operate.Threads.Lately(t.Context(), w.Workspace, resp.Header.Get("X-Thread-Id"), 10)
	if err != nil || len(said) != 2 || said[1].Body != "One two." {
		t.Errorf("the thread is %+v, %v", said, err)
	}
}

// TestATurnIsCancelled cancels a turn while the model answers.
func TestATurnIsCancelled(t *testing.T) {
	w := onOne(t)
	m := slow{make(chan struct{}), make(chan struct{})}
	w.Operate.Reason.Model = m
	ended := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, request(http.MethodPost, operatePath, owner, `{"message":"Count."}`))
		ended <- rec
	}()
	<-m.written
	var running struct{ Items []struct{ ID string } }
	w.must(t, 200, http.MethodGet, "/api/v1/executions?status=running", "", &running)
	var given struct{ Status string }
	w.must(t, 200, http.MethodPost, "/api/v1/executions/"+running.Items[0].ID+"/cancel", `{}`, &given)
	close(m.goOn)
	if got := (<-ended).Body.String(); given.Status != "cancelled" || !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("it is %s, and answered %s", given.Status, got)
	}
	w.refused(t, 409, "ended", http.MethodPost, "/api/v1/executions/"+running.Items[0].ID+"/cancel", `{}`)
}
