package api_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// spoken is a channel that records its messages.
type spoken struct {
	bodies []string
	err    error // the result of Send
}

func (*spoken) Name() string { return "log" }

func (s *spoken) Send(_ context.Context, m thread.Message) error {
	if s.err == nil {
		s.bodies = append(s.bodies, m.Body)
	}
	return s.err
}

type threadTold struct {
	ID, Channel, Address, Policy string
	Queued                       int
	Lock                         *struct{ State, ExecutionID, ParkedBy string }
}

type begun struct{ ID, TraceID string }

type sentTold struct {
	Success, Queued bool
	Position        int
	MessageID       string
	Status          outbox.Status
}

// conversing runs fn with a world whose outbox is sent when fn calls send.
func conversing(t *testing.T, fn func(t *testing.T, w *world, said *spoken, send func())) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		kicked := 0
		w := newWorld(t, e, func(d *api.Deps) { d.Kick = func(db.Workspace) { kicked++ } })
		said := &spoken{}
		sender := &outbox.Sender{Store: w.Approvals.Outbox, Holder: "test", Log: w.Log, Handlers: w.Threads.Handlers(said)}
		fn(t, w, said, func() {
			t.Helper()
			if kicked == 0 {
				t.Error("nobody was kicked")
			}
			kicked = 0
			if _, err := sender.Drain(t.Context(), w.Workspace, 100); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func (w *world) begin(t testing.TB, body string) (e begun) {
	t.Helper()
	w.must(t, 201, http.MethodPost, "/api/v1/executions", body, &e)
	return e
}

// TestTwoAgentsSpeakOneAfterTheOther runs the first story of threads over HTTP: the messages of the
// second agent wait until the first agent has ended.
func TestTwoAgentsSpeakOneAfterTheOther(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, said *spoken, send func()) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada","metadata":{"subject":"ice"}}`, &th)
		var again threadTold
		w.must(t, 200, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &again)
		if again.ID != th.ID || th.Policy != "queue" || th.Lock != nil {
			t.Errorf("it is %+v, then %+v", th, again)
		}
		path := "/api/v1/threads/" + th.ID
		a, b := w.begin(t, `{"agent":"a"}`), w.begin(t, `{"agent":"b"}`)
		w.must(t, 200, http.MethodPost, path+"/lock", `{"executionId":"`+a.ID+`"}`, &th)
		if th.Lock == nil || th.Lock.ExecutionID != a.ID || th.Lock.State != "active" {
			t.Errorf("locked, it is %+v", th)
		}
		if p := w.refused(t, 409, "busy", http.MethodPost, path+"/lock", `{"executionId":"`+b.ID+`"}`); p.Holder != a.ID {
			t.Errorf("refused because of %+v", p)
		}
		var first, second sentTold
		w.must(t, 200, http.MethodPost, path+"/send", `{"executionId":"`+a.ID+`","body":"from a"}`, &first)
		w.must(t, 202, http.MethodPost, path+"/send", `{"executionId":"`+b.ID+`","body":"from b","idempotencyKey":"k"}`, &second)
		if !first.Success || first.Queued || !second.Success || !second.Queued || second.Position != 1 || first.Status != outbox.Ready || second.Status != outbox.Queued {
			t.Errorf("sent %+v and %+v", first, second)
		}
		type explained struct {
			Held           bool
			Summary, Doing string
			FreesAt        *time.Time
			Lock           *struct{ ExecutionID string }
			Queued         int
			Waiting        []struct{ MessageID, ExecutionID string }
		}
		var why explained
		w.must(t, 200, http.MethodGet, path+"/why", "", &why)
		if !why.Held || why.Lock == nil || why.Lock.ExecutionID != a.ID || !strings.Contains(why.Doing, "agent a") || why.Queued != 1 ||
			len(why.Waiting) != 1 || why.Waiting[0].MessageID != second.MessageID || why.Waiting[0].ExecutionID != b.ID ||
			why.FreesAt == nil || !about(time.Until(*why.FreesAt), thread.Idle) || !strings.Contains(why.Summary, a.ID) || !strings.Contains(why.Summary, b.ID) {
			t.Errorf("held, because %+v", why)
		}
		w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+a.ID+`","seconds":7200}`, nil)
		if w.must(t, 200, http.MethodGet, path+"/why", "", &why); why.FreesAt == nil || !about(time.Until(*why.FreesAt), 2*time.Hour) {
			t.Errorf("parked, because %+v", why)
		}
		send()
		if !slices.Equal(said.bodies, []string{"from a"}) {
			t.Fatalf("said is %q", said.bodies)
		}
		for _, stuck := range []string{"active", "stale"} {
			want := []string{th.ID}
			if stuck == "stale" {
				want = nil
			}
			if got := listed(t, w, "/api/v1/threads?lock="+stuck, func(th threadTold) string { return th.ID }); !slices.Equal(got, want) {
				t.Errorf("%s are %v", stuck, got)
			}
		}
		var ended struct{ Status string }
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+a.ID+"/complete", `{"result":{"ok":true}}`, &ended)
		if ended.Status != "completed" {
			t.Errorf("ended, it is %+v", ended)
		}
		send()
		why = explained{}
		if w.must(t, 200, http.MethodGet, path+"/why", "", &why); why.Held || why.FreesAt != nil || why.Lock != nil || len(why.Waiting) > 0 {
			t.Errorf("free, because %+v", why)
		}
		type messageTold struct{ ID, Role, Body, ExecutionID string }
		var told []messageTold
		listed(t, w, path+"/messages", func(m messageTold) string { told = append(told, m); return m.ID })
		if len(told) != 2 || told[0].Body != "from a" || told[1] != (messageTold{second.MessageID, "assistant", "from b", b.ID}) {
			t.Errorf("spoken is %+v", told)
		}
		waits := listed(t, w, path+"/outbox", func(m struct{ Status, Body string }) string { return m.Status + " " + m.Body })
		if !slices.Equal(waits, []string{"sent from b", "sent from a"}) {
			t.Errorf("the outbox has %q", waits)
		}
		w.refused(t, 409, "ended", http.MethodPost, path+"/send", `{"executionId":"`+a.ID+`","body":"too late"}`)
		w.refused(t, 409, "not_held", http.MethodPost, path+"/unlock", `{"executionId":"`+b.ID+`"}`)
	})
}

// TestAChildSpeaksInItsParentsPlaceWhileThatWaits runs the second story: the person answers a
// parked thread, and both executions continue.
func TestAChildSpeaksInItsParentsPlaceWhileThatWaits(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, said *spoken, send func()) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path := "/api/v1/threads/" + th.ID
		parent := w.begin(t, `{"agent":"coordinator"}`)
		w.must(t, 200, http.MethodPost, path+"/lock", `{"executionId":"`+parent.ID+`"}`, nil)
		child := w.begin(t, `{"agent":"collector","parentExecutionId":"`+parent.ID+`","waitForCompletion":true}`)
		if child.TraceID != parent.TraceID {
			t.Errorf("the child's trace is %s, its parent's %s", child.TraceID, parent.TraceID)
		}
		stranger := w.begin(t, `{"agent":"other","parentExecutionId":"`+parent.ID+`"}`)
		w.refused(t, 409, "busy", http.MethodPost, path+"/lock", `{"executionId":"`+stranger.ID+`"}`)
		w.must(t, 200, http.MethodPost, path+"/send", `{"executionId":"`+child.ID+`","body":"what is your name?"}`, nil)
		send()
		w.must(t, 200, http.MethodPost, path+"/park", `{"executionId":"`+child.ID+`","seconds":7200}`, &th)
		if th.Lock == nil || th.Lock.ParkedBy != child.ID {
			t.Errorf("parked, it is %+v", th)
		}
		var answered struct{ MessageID, ResumedExecutionID string }
		w.must(t, 201, http.MethodPost, path+"/messages", `{"body":"Ada"}`, &answered)
		if answered.ResumedExecutionID != child.ID {
			t.Errorf("answered, %+v", answered)
		}
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+child.ID+"/complete", `{}`, nil)
		w.must(t, 200, http.MethodGet, path, "", &th)
		var waited struct{ Status string }
		w.must(t, 200, http.MethodGet, "/api/v1/executions/"+parent.ID, "", &waited)
		if th.Lock == nil || th.Lock.ExecutionID != parent.ID || waited.Status != "running" {
			t.Errorf("then the parent is %s, the thread %+v", waited.Status, th)
		}
		w.must(t, 200, http.MethodPost, path+"/force-unlock", `{"reason":"enough"}`, nil)
		if p := w.refused(t, 409, "not_held", http.MethodPost, path+"/force-unlock", `{"reason":"enough"}`); p.Detail != "nobody has the thread" {
			t.Errorf("forced once more, %q", p.Detail)
		}
		var free threadTold
		if w.must(t, 200, http.MethodGet, path, "", &free); free.Lock != nil {
			t.Errorf("forced, it is %+v", free)
		}
		w.must(t, 200, http.MethodPost, "/api/v1/executions/"+parent.ID+"/fail", `{"reason":"no"}`, nil)
		w.refused(t, 409, "ended", http.MethodPost, "/api/v1/executions/"+parent.ID+"/cancel", `{}`)
	})
}

// TestAMessageIsSentAgain: a message that failed is not repeated as a success, until an admin
// resends it.
func TestAMessageIsSentAgain(t *testing.T) {
	conversing(t, func(t *testing.T, w *world, said *spoken, send func()) {
		var th threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
		path := "/api/v1/threads/" + th.ID
		message := `{"executionId":"` + w.begin(t, `{"agent":"a"}`).ID + `","body":"hello","idempotencyKey":"k"}`
		said.err = outbox.Permanently(errors.New("no such number"))
		var sent sentTold
		w.must(t, 200, http.MethodPost, path+"/send", message, &sent)
		send()
		if p := w.refused(t, 409, "message_status", http.MethodPost, path+"/send", message); p.PresentStatus != "failed" {
			t.Errorf("sent twice, it is %+v", p)
		}
		type failed struct{ ID, Kind, ThreadID string }
		found := listed(t, w, "/api/v1/failures", func(f failed) string { return f.Kind + " " + f.ID + " of " + f.ThreadID })
		if !slices.Equal(found, []string{"message " + sent.MessageID + " of " + th.ID}) {
			t.Errorf("what failed: %q", found)
		}
		said.err = nil
		resend := path + "/outbox/" + sent.MessageID + "/resend"
		var again sentTold
		w.must(t, 200, http.MethodPost, resend, `{}`, &again)
		if again.MessageID != sent.MessageID || again.Queued || again.Status != outbox.Ready {
			t.Errorf("sent again, it is %+v", again)
		}
		send()
		if !slices.Equal(said.bodies, []string{"hello"}) {
			t.Errorf("said is %q", said.bodies)
		}
		if p := w.refused(t, 409, "message_status", http.MethodPost, resend, `{}`); p.PresentStatus != "sent" {
			t.Errorf("sent a third time, it is %+v", p)
		}
		w.must(t, 200, http.MethodPost, path+"/send", message, &again)
		if again.Status != outbox.Sent {
			t.Errorf("repeated, it is %+v", again)
		}
		w.refused(t, 404, "not_found", http.MethodPost, path+"/outbox/"+th.ID+"/resend", `{}`)
		type line struct{ Skill string }
		if got := listed(t, w, "/api/v1/activity?skill=thread.resend", func(l line) string { return l.Skill }); len(got) != 1 {
			t.Errorf("the log has %q", got)
		}
	})
}

// A thread without an outgoing channel, such as the operator's own conversations, refuses messages.
func TestWhereNobodySpeaks(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		th, err := w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: operate.Channel, Address: "x"})
		if err != nil {
			t.Fatal(err)
		}
		path, by := "/api/v1/threads/"+th.ID, `{"executionId":"`+w.begin(t, `{"agent":"a"}`).ID+`"`
		for what, body := range map[string]string{
			"lock": by + `}`, "park": by + `}`, "send": by + `,"body":"hello"}`, "messages": `{"body":"hello"}`, "outbox/" + th.ID + "/resend": `{}`,
		} {
			w.refused(t, 422, "no_channel", http.MethodPost, path+"/"+what, body)
		}
		w.must(t, 200, http.MethodGet, path+"/messages", "", nil)
		var sms threadTold
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"sms","address":"+14155550123"}`, &sms)
		long := by + `,"body":"` + strings.Repeat("x", 2000) + `"}`
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/threads/"+sms.ID+"/send", long); !p.at("body.body") {
			t.Errorf("a long SMS: %+v", p.Errors)
		}
	})
}

func TestWhatIsNoThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for body, field := range map[string]string{
			`{"channel":"pigeon","address":"ada"}`:               "body.channel",
			`{"channel":"email","address":"ada"}`:                "body.address",
			`{"channel":"sms","address":"12"}`:                   "body.address",
			`{"channel":"log","address":"ada","policy":"none"}`:  "body.policy",
			`{"channel":"log","address":"a","metadata":{"a":1}}`: "body.metadata",
			`{"channel":"log"}`:                                  "body",
		} {
			if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/threads", body); !p.at(field) {
				t.Errorf("%s: %+v", body, p.Errors)
			}
		}
		if p := w.refused(t, 422, "invalid", http.MethodPost, "/api/v1/executions", `{"agent":"a","waitForCompletion":true}`); !p.at("body.parentExecutionId") {
			t.Errorf("%+v", p.Errors)
		}
		w.refused(t, 404, "not_found", http.MethodPost, "/api/v1/executions", `{"agent":"a","parentExecutionId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`)
	})
}

// The keys of messages are bounded in bytes. A refusal names the field as the request does.
func TestTheKeyOfAMessageIsBoundedInBytes(t *testing.T) {
	w := onOne(t)
	var th struct{ ID string }
	w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &th)
	a := w.begin(t, `{"agent":"a"}`)
	for path, body := range map[string]string{"/messages": `"body":"Hello"`, "/send": `"body":"Hello","executionId":"` + a.ID + `"`} {
		for key, refused := range map[string]bool{strings.Repeat("ü", 100): false, strings.Repeat("ü", 101): true} {
			got := w.call(t, http.MethodPost, "/api/v1/threads/"+th.ID+path, admin, `{`+body+`,"idempotencyKey":"`+key+`"}`)
			if (got.status == 422) != refused || refused && !strings.Contains(string(got.body),
				`{"location":"body.idempotencyKey","message":"has at most 200 bytes"}`) {
				t.Errorf("%s with a key of %d bytes: %d %s", path, len(key), got.status, got.body)
			}
		}
	}
}
