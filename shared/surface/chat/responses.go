package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// responseRequest is the body of POST /v1/responses. Other fields are ignored, store among them: what
// is said is always stored.
type responseRequest struct {
	Model           string            `json:"model"`
	Input           json.RawMessage   `json:"input"` // a text, or a list of items
	Instructions    string            `json:"instructions"`
	Previous        string            `json:"previous_response_id"`
	Stream          bool              `json:"stream"`
	User            string            `json:"user"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Tools           []json.RawMessage `json:"tools"`
}

// item is one of the list that the input is. Items without a type are messages.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// respond answers POST /v1/responses. With previous_response_id the conversation of that response
// goes on, as it stands now; else the input is the whole context, of which the last item is answered.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, v *visit) {
	var body responseRequest
	free, p := h.read(w, r, v, &body)
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	defer free()
	m := message{model: v.model(body.Model), thread: r.Header.Get(threadHeader), multitask: strategy(r), stream: body.Stream}
	p = body.said(&m)
	m.adds = body.Previous != ""
	if p == nil {
		m.tokens, p = tokensOf("body.max_output_tokens", body.MaxOutputTokens)
	}
	if p == nil {
		p = v.identify(r, body.User)
	}
	if p == nil && body.Previous != "" {
		if !v.counted { // the response names the visitor, and is looked for before the message counts
			p = h.look(r.Context(), v)
		}
		if p == nil {
			p = h.follows(r, v, &m, body.Previous)
		}
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	h.talk(w, r, v, m, newResponse(responseBody{Model: m.model, Previous: text(body.Previous), CreatedAt: h.Clock().Unix()}))
}

// said puts into m the message that is to be answered, and what came before it; nil: what the thread has.
func (q *responseRequest) said(m *message) *problem.Problem {
	if len(q.Tools) > 0 {
		return toolsRefused
	}
	if p := checkText("body.instructions", q.Instructions); p != nil {
		return p
	}
	var whole string
	var items []item
	switch {
	case len(q.Input) == 0 || string(q.Input) == "null":
		return bad("body.input", "expected a text, or a list of items")
	case json.Unmarshal(q.Input, &whole) == nil:
		items = []item{{Role: "user", Content: q.Input}}
	case json.Unmarshal(q.Input, &items) != nil:
		return bad("body.input", "expected a text, or a list of items")
	case len(items) == 0:
		return bad("body.input", "has one item at least")
	}
	said := make([]turn.Said, 0, len(items)+1)
	if q.Instructions != "" {
		said = append(said, saidBy("developer", q.Instructions))
	}
	asked, first, last := len(said), len(said), ""
	for i, one := range items {
		at := fmt.Sprintf("body.input[%d]", i)
		switch one.Type {
		case "", "message":
		case "reasoning":
			continue
		default:
			return wrongField(http.StatusBadRequest, "unsupported_item", at+".type", "expected a message: nothing else is taken here")
		}
		if !slices.Contains([]string{"system", "developer", "user", "assistant"}, one.Role) {
			return bad(at+".role", "is system, developer, user or assistant")
		}
		text, p := textOf(at+".content", one.Content)
		if p != nil {
			return p
		}
		if text != "" {
			if first == len(said) && instructs(one.Role) {
				first++
			}
			said = append(said, saidBy(one.Role, text))
		}
		last = at
	}
	if len(said) == asked {
		return bad("body.input", "expected a message")
	}
	return q.split(m, last, said, first)
}

// split divides what was said into the message that is to be answered and what came before. Where the
// response before gives the context, all that is new is the message, but for the instructions.
func (q *responseRequest) split(m *message, at string, said []turn.Said, first int) *problem.Problem {
	before, last := said[:len(said)-1], said[len(said)-1]
	if last.Role == thread.Assistant {
		return bad(at+".role", "the last item is answered: it can't be the assistant's")
	}
	if q.Previous == "" {
		m.body = last.Body
		if p := m.takes(before, first); p != nil {
			return p
		}
		return checkMessage("body.input", m.body)
	}
	if q.Instructions != "" {
		m.before, m.leading, said = said[:1], 1, said[1:]
	}
	texts := make([]string, 0, len(said))
	for _, s := range said {
		if s.Role == thread.User {
			texts = append(texts, s.Body)
		}
	}
	m.body = strings.Join(texts, "\n\n")
	return checkMessage("body.input", m.body)
}

// tokensOf is the bound that a request sets for the answer; 0: none.
func tokensOf(at string, given *int) (int, *problem.Problem) {
	switch {
	case given == nil:
		return 0, nil
	case *given < 1:
		return 0, bad(at, "is 1 at least")
	}
	return *given, nil
}

const responsePrefix = "resp_"

// follows has a message go on with the conversation of a response. Its id counts as the name of the
// visitor.
func (h *Handler) follows(r *http.Request, v *visit, m *message, id string) *problem.Problem {
	e, found, p := h.responded(r, v, id)
	if p != nil {
		p = wrongField(p.Status, "previous_response_not_found", "body.previous_response_id", "there is no such response")
		return p
	}
	if m.thread != "" && !strings.EqualFold(m.thread, found.ID) || v.visitor != "" && v.visitor != found.Address {
		return wrongField(http.StatusNotFound, "previous_response_not_found", "body.previous_response_id",
			"there is no such response of this visitor")
	}
	m.thread, m.after, v.visitor = found.ID, e.ID, found.Address
	return nil
}

// responded finds the execution of a response, and its conversation.
func (h *Handler) responded(r *http.Request, v *visit, id string) (e execution.Execution, t thread.Thread, p *problem.Problem) {
	id, ok := strings.CutPrefix(id, responsePrefix)
	if !ok || uuid.Validate(id) != nil || len(id) != 36 {
		return e, t, noResponse
	}
	return h.turnOf(r, v, strings.ToLower(id))
}

var noResponse = problem.New(http.StatusNotFound, "not_found", "there is no such response")

// turnOf finds an execution that is a visitor's turn, and its conversation.
func (h *Handler) turnOf(r *http.Request, v *visit, id string) (e execution.Execution, t thread.Thread, p *problem.Problem) {
	ctx, cancel := within(r.Context())
	defer cancel()
	e, err := h.Runs.Get(ctx, v.Workspace, id)
	name, ok := "", false
	if err == nil && e.Surface == trace.Chat {
		name, _, ok = h.AskedOf(e)
	}
	if ok {
		t, err = h.Threads.Get(ctx, v.Workspace, name)
	}
	switch {
	case errors.Is(err, db.ErrNoRows), err == nil && (!ok || !v.reaches(t)):
		return e, t, noResponse
	case err != nil:
		return e, t, h.problem(ctx, err)
	}
	return e, t, nil
}

// getResponse answers GET /v1/responses/{response}; with ?stream=true it streams, behind the event
// that starting_after or Last-Event-ID names.
func (h *Handler) getResponse(w http.ResponseWriter, r *http.Request, v *visit) {
	p := v.identify(r, r.URL.Query().Get("user"))
	if p == nil {
		p = h.look(r.Context(), v)
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	e, t, p := h.responded(r, v, r.PathValue("response"))
	if p == nil && v.visitor != "" && v.visitor != t.Address {
		p = noResponse
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	w.Header().Set(threadHeader, t.ID)
	w.Header().Set(sessionHeader, t.Address)
	v.visitor = t.Address
	id := e.ID
	previous := h.AfterOf(e)
	if previous != "" {
		previous = responsePrefix + previous
	}
	as := newResponse(responseBody{
		ID: responsePrefix + id, Model: v.model(e.Persona), Previous: text(previous), CreatedAt: e.CreatedAt.Unix(),
	})
	if r.URL.Query().Get("stream") != "true" {
		reply, err := h.stands(r, v, e.ID)
		if err != nil {
			h.fail(w, r, err)
			return
		}
		if reply == nil {
			as.Status = inProgress
			write(w, http.StatusOK, as.responseBody)
			return
		}
		as.id(id)
		write(w, http.StatusOK, as.ended(*reply))
		return
	}
	if at, after := goesOnAfter(r, "starting_after"); after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 || n > maxSeq {
			h.refuse(w, r, bad(at, "is the sequence_number of an event"))
			return
		}
		as.continueAfter(n)
	}
	h.follow(w, r, v, e.ID, turn.Position{}, as)
}

// stands is how a turn stands, or the one that answers its message; nil: it is worked on.
func (h *Handler) stands(r *http.Request, v *visit, id string) (*turn.Reply, error) {
	ctx, cancel := within(r.Context())
	defer cancel()
	_, reply, err := h.Since(ctx, v.Workspace, id, lastSeq)
	if err == nil && reply != nil && reply.AnsweredBy != "" {
		_, reply, err = h.Since(ctx, v.Workspace, reply.AnsweredBy, lastSeq)
	}
	return reply, err
}

// lastSeq stands behind all entries of a journal.
const lastSeq = 1 << 30

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
