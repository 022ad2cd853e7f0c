package api

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// maxMessage is the longest message of a person, in bytes.
const maxMessage = 16 << 10

type talkInput struct {
	Body struct {
		Message   string         `json:"message" minLength:"1" maxLength:"16384" doc:"At most 16 KiB"`
		ThreadID  string         `json:"threadId,omitempty" format:"uuid" patternDescription:"the id of a thread" doc:"Left out: a new one"`
		Stream    bool           `json:"stream,omitempty" doc:"Answer with server-sent events: delta, step, restart (drop the text of the deltas whose id begins with the same number: that answer begins anew) and, at the end, done"`
		Multitask turn.Multitask `json:"multitask,omitempty" enum:"enqueue,reject,interrupt,rollback" doc:"What to do about a turn that runs; left out: enqueue"`
	}
}

// talkAnswer is the result of a turn. In a stream it is the data of done.
type talkAnswer struct {
	Answer      string           `json:"answer"`
	Status      execution.Status `json:"status" enum:"completed,stalled,failed,waiting,parked,cancelled" doc:"Of its execution. waiting: it goes on after an approval; parked: by itself. Then its answer comes into the thread"`
	Reason      string           `json:"reason,omitempty" doc:"Why it is not completed, or what its answer lacks"`
	ExecutionID string           `json:"executionId" format:"uuid"`
	TraceID     trace.ID         `json:"traceId"`
	ThreadID    string           `json:"threadId,omitempty" format:"uuid"`
	Usage       tokenUsage       `json:"usage"`
	Approvals   []string         `json:"approvals,omitempty" doc:"What it waits for"`
	NotUndone   []effectItem     `json:"notUndone,omitempty" doc:"Effects of the turn that was rolled back which stay"`
}

type effectItem struct {
	CallID string `json:"callId"`
	Skill  string `json:"skill"`
	Status string `json:"status" enum:"succeeded,uncertain,approved"`
}

func talkAnswerOf(r turn.Reply) talkAnswer {
	a := talkAnswer{
		Answer: r.Answer, Status: r.Status, Reason: r.Reason, ExecutionID: r.Execution, TraceID: r.Trace, ThreadID: r.Thread,
		Approvals: r.Approvals,
		Usage:     tokenUsage{PromptTokens: r.Prompt, CompletionTokens: r.Completion, TotalTokens: r.Prompt + r.Completion},
	}
	for _, e := range r.NotUndone {
		a.NotUndone = append(a.NotUndone, effectItem{e.Call, e.Skill, e.Status})
	}
	return a
}

// deltaItem is a piece of the model's answer.
type deltaItem struct {
	Text string `json:"text"`
}

// stepItem is the state of a call.
type stepItem struct {
	CallID     string `json:"callId"`
	Skill      string `json:"skill"`
	Status     string `json:"status"` // started, succeeded, failed, uncertain or waiting
	ApprovalID string `json:"approvalId,omitempty"`
	Result     string `json:"result,omitempty"`
}

// streamed describes a response that is JSON or a stream. A nil body means a stream only.
func streamed(a huma.API, op *huma.Operation, body reflect.Type) {
	text := &huma.Schema{Type: huma.TypeString}
	content := map[string]*huma.MediaType{"text/event-stream": {Schema: text}}
	if body != nil {
		content["application/json"] = &huma.MediaType{Schema: a.OpenAPI().Components.Schemas.Schema(body, true, "")}
	}
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: content}
}

// talked serves the route on which people talk with the agent.
func talked(s *server, a huma.API, op huma.Operation) {
	streamed(a, &op, reflect.TypeFor[talkAnswer]())
	s.register(a, op, reflect.TypeFor[talkInput](), func(w http.ResponseWriter, r *http.Request, v any) error {
		in := v.(*talkInput)
		var wrong []problem.FieldError
		if strings.TrimSpace(in.Body.Message) == "" {
			wrong = append(wrong, problem.At("body.message", "expected a message"))
		}
		if len(in.Body.Message) > maxMessage {
			wrong = append(wrong, problem.At("body.message", "a message has 16 KiB at most"))
		}
		if wrong != nil {
			return invalid(wrong...)
		}
		s.talk(w, r, in)
		return nil
	})
}

// talk runs one turn with the agent. The turn continues if the client disconnects: its events are
// at /api/v1/executions/{id}/events, and its answer is in the thread. It is called by the Engine
// Room's console, by lanekeeper ask and by scripts.
func (s *server) talk(w http.ResponseWriter, r *http.Request, in *talkInput) {
	by, _ := auth.From(r.Context())
	if s.talkedBefore(w, r, in.Body.Stream) {
		return
	}
	if in.Body.Stream {
		closed, ok := s.stream(w, r)
		if !ok {
			return
		}
		defer closed()
	}
	ctx, cancel := telling.Outlasting(r.Context(), s.Streams.Drain)
	defer cancel()
	message := turn.Turn{
		ID: claimedID(ctx), Message: discreet(ctx, in.Body.Message), Thread: in.Body.ThreadID, Multitask: in.Body.Multitask,
		By: principal(by), Limited: !by.Role.AtLeast(auth.Admin),
	}
	out, stop := &runStream{Stream: sse.Stream{W: w}}, func() {}
	if in.Body.Stream {
		message.Begun, message.Tell = out.begin, out.event
		stop = sync.OnceFunc(sse.Keep(s.Streams.Quiet, out.Still))
	}
	defer stop()
	reply, err := s.Operate.Talk(ctx, by.Workspace, message)
	stop()
	s.Send(by.Workspace) // sends the messages that the turn left in the outbox
	switch {
	case err != nil: // nothing was stored
		s.fail(w, r, err)
	case out.Begun:
		out.done(talkAnswerOf(reply))
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = encode(w, talkAnswerOf(reply)) // encoding cannot fail
	}
}

// talkedBefore answers a request whose turn an earlier execution of the same request has begun, and reports
// whether there is one. That turn continues by itself if its process has died.
func (s *server) talkedBefore(w http.ResponseWriter, r *http.Request, stream bool) bool {
	id := claimedID(r.Context())
	if id == "" {
		return false
	}
	_, reply, err := s.Operate.Since(r.Context(), workspace(r.Context()), id, math.MaxInt32) // without its journal
	switch {
	case errors.Is(err, db.ErrNoRows):
		return false
	case err != nil:
		s.fail(w, r, err)
	case stream:
		s.refuse(w, r, doneBy(id))
	case reply == nil:
		s.refuse(w, r, doingBy(id))
	default:
		w.Header().Set(replayedHeader, "true")
		w.Header().Set("Content-Type", "application/json")
		_ = encode(w, talkAnswerOf(*reply)) // encoding cannot fail
	}
	return true
}

// runStream writes the events of an execution as server-sent events. After the client has
// disconnected it writes nothing.
type runStream struct {
	sse.Stream
	last turn.Position
}

// begin sends the head of the response. It names the execution, so that the client can resume the
// stream.
func (t *runStream) begin(execution, thread string) {
	h := t.W.Header()
	h.Set(executionHeader, execution)
	if thread != "" {
		h.Set("X-Thread-Id", thread)
	}
	t.Begin(func(b *bytes.Buffer) { b.WriteString(sse.ComeBack + "\n") })
}

func (t *runStream) event(e turn.Event) {
	t.last = e.After
	kind, data := "step", any(nil)
	switch {
	case e.Restart:
		kind, data = "restart", struct{}{}
	case e.Text != "":
		kind, data = "delta", deltaItem{e.Text}
	default:
		data = stepItem{e.Call.ID, e.Call.Skill, e.Call.Status, e.Call.Approval, e.Call.Result}
	}
	t.Tell(func(b *bytes.Buffer) { sse.Event(b, e.After.String(), kind, data) })
}

func (t *runStream) done(a talkAnswer) {
	t.Tell(func(b *bytes.Buffer) { sse.Event(b, t.last.String(), "done", a) })
}

type runEventsInput struct {
	IDPath
	After string `query:"after" maxLength:"32" doc:"Go on behind this event; without it from the beginning"`
	Last  string `header:"Last-Event-ID" maxLength:"32" doc:"The same, as browsers send it; counts before after"`
}

// runFollowed serves the route on which clients follow an execution.
func runFollowed(s *server, a huma.API, op huma.Operation) {
	streamed(a, &op, nil)
	s.register(a, op, reflect.TypeFor[runEventsInput](), func(w http.ResponseWriter, r *http.Request, v any) error {
		in := v.(*runEventsInput)
		var after turn.Position
		at, id := "query.after", in.After
		if in.Last != "" {
			at, id = "header.Last-Event-ID", in.Last
		}
		if id != "" {
			var err error
			if after, err = turn.ParsePosition(id); err != nil {
				return invalid(problem.At(at, turn.ErrPosition.Error()))
			}
		}
		s.followRun(w, r, in.ID, after)
		return nil
	})
}

// followRun sends the events of an execution, from its beginning or after a given event, until it
// has ended or waits. They are the events of POST /api/v1/operate, read from the journal. It is
// called by the Engine Room, and by clients that resume a stream.
func (s *server) followRun(w http.ResponseWriter, r *http.Request, id string, after turn.Position) {
	closed, ok := s.stream(w, r)
	if !ok {
		return
	}
	defer closed()
	ctx := r.Context()
	out := followedRun{&runStream{sse.Stream{W: w}, after}, id, r.Method == http.MethodHead}
	if err := s.runs.Follow(ctx, workspace(ctx), id, after, out); err != nil {
		s.fail(w, r, err)
	}
}

// followedRun is a [runStream] for a client that follows an execution.
type followedRun struct {
	*runStream
	execution string
	head      bool
}

// Begin implements [telling.Listener].
func (f followedRun) Begin() bool {
	f.begin(f.execution, "")
	return !f.head
}

// Event implements [telling.Listener].
func (f followedRun) Event(e turn.Event) { f.event(e) }

// Done implements [telling.Listener].
func (f followedRun) Done(r turn.Reply) { f.done(talkAnswerOf(r)) }
