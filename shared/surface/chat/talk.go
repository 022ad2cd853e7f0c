package chat

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// message is what a request asks, whatever its shape.
type message struct {
	body      string
	before    []turn.Said // nil: what the thread has
	leading   int         // how many of before, from the first, are instructions
	adds      bool        // before adds to what the thread has
	after     string      // the execution that it follows; empty: none is named
	model     string      // the name of an agent
	thread    string      // empty: the visitor's
	multitask turn.Multitask
	stream    bool
	tokens    int // that bound the answer; 0: only the workspace's setting does
}

// voice writes the answer to a message in one protocol: a stream as begin, events and end; else the
// body of the answer.
type voice interface {
	begin(b *bytes.Buffer, execution, thread string)
	event(b *bytes.Buffer, e turn.Event)
	end(b *bytes.Buffer, r turn.Reply)
	answer(r turn.Reply) any
}

// talk has a turn with the agent and answers. The turn goes on when the caller leaves, and when the
// process drains it goes on elsewhere: then the answer is in the history.
func (h *Handler) talk(w http.ResponseWriter, r *http.Request, v *visit, m message, as voice) {
	key, p := keyOf(r)
	if p == nil {
		p = checkKey(v, m, key)
	}
	if p == nil {
		p = h.admit(r.Context(), v, &m)
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	head := w.Header()
	head.Set(sessionHeader, v.visitor)
	id := idOf(v, key)
	if id != "" && h.again(w, r, v, m, id, as) {
		return
	}
	if m.stream {
		leave, p := h.openStream(v)
		if p != nil {
			h.refuse(w, r, p)
			return
		}
		defer leave()
	}
	bounded, done := context.WithTimeout(r.Context(), cmp.Or(h.Longest, longest))
	defer done()
	ctx, cancel := telling.Outlasting(bounded, h.Streams.Drain)
	defer cancel()
	t := h.turn(ctx, v, m)
	t.ID = id
	out, stop := &writer{sse.Stream{W: w}, as}, func() {}
	if m.stream {
		t.Begun, t.Tell = out.begin, out.event
		stop = sync.OnceFunc(sse.Keep(h.Streams.Quiet, out.Still))
	}
	defer stop()
	reply, err := h.Talk(ctx, v.Workspace, t)
	stop()
	if h.Send != nil {
		h.Send(v.Workspace)
	}
	switch {
	case err != nil: // and nothing is written down
		h.fail(w, r, err)
	case out.Begun:
		out.end(reply)
	default:
		head.Set(threadHeader, reply.Thread)
		head.Set(executionHeader, reply.Execution)
		write(w, http.StatusOK, as.answer(reply))
	}
}

// openStream counts a stream of the caller's until leave is called.
func (h *Handler) openStream(v *visit) (leave func(), p *problem.Problem) {
	who := string(v.Workspace) + " " + v.caller()
	if !h.open.Enter(who, h.Streams.Most) {
		return nil, tooManyStreams
	}
	return func() { h.open.Leave(who) }, nil
}

var tooManyStreams = problem.New(http.StatusTooManyRequests, "too_many_streams",
	"too many answers are streamed to you already: wait until one has ended").Later(2 * time.Second)

// admit decides whether a message may go to an agent: whether the caller sends too many, whose
// conversation it is, and whether the caller may talk with that agent.
func (h *Handler) admit(ctx context.Context, v *visit, m *message) *problem.Problem {
	if p := h.count(ctx, v); p != nil {
		return p
	}
	if own := v.persona(); own != "" && own != m.model || !fit(m.model) || len(m.model) > maxName {
		return noModel
	}
	return h.enter(ctx, v, m.thread)
}

// turn returns the turn of a message. Known secrets are taken out of its texts.
func (h *Handler) turn(ctx context.Context, v *visit, m message) turn.Turn {
	clean := redact.From(ctx).Values()
	for i := range m.before {
		m.before[i].Body = clean.Text(m.before[i].Body)
	}
	return turn.Turn{
		Surface: trace.Chat, Lane: laneOf(v.visitor), Persona: m.model, Thread: strings.ToLower(m.thread), Address: v.visitor, Opener: v.opener(),
		Message: clean.Text(m.body), Before: m.before, Leading: m.leading, Adds: m.adds, After: m.after, Multitask: m.multitask,
		AnswerTokens: m.tokens, By: v.by(),
	}
}
