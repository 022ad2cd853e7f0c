package chat

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// messageRequest is the body of POST /api/v1/chat/messages and of POST
// /api/v1/chat/{threadId}/messages.
type messageRequest struct {
	Message   string         `json:"message"`
	User      string         `json:"user"`
	Model     string         `json:"model"` // the name of an agent; empty: the caller's
	Stream    bool           `json:"stream"`
	Multitask turn.Multitask `json:"multitask"`
}

const knownStrategies = "is enqueue, reject, interrupt, rollback, collect or steer"

// message answers a visitor's message. The context is what the thread has.
func (h *Handler) message(w http.ResponseWriter, r *http.Request, v *visit) {
	var body messageRequest
	free, p := h.readStrict(w, r, v, &body)
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	defer free()
	m := message{
		body: body.Message, model: v.model(body.Model), thread: cmp.Or(r.PathValue("thread"), r.Header.Get(threadHeader)),
		multitask: cmp.Or(body.Multitask, strategy(r)), stream: body.Stream,
	}
	if body.Multitask != "" && !slices.Contains(Kind().Multitask, body.Multitask) {
		h.refuse(w, r, bad("body.multitask", knownStrategies))
		return
	}
	if p = checkText("body.message", m.body); p == nil {
		p = checkMessage("body.message", m.body)
	}
	if p == nil {
		p = v.identify(r, body.User)
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	h.talk(w, r, v, m, &native{})
}

// handle answers a request of a caller who may chat.
type handle = func(http.ResponseWriter, *http.Request, *visit)

// knows is a handler of /api/v1/chat whose query may hold the given parameters, each once.
func (h *Handler) knows(next handle, parameters ...string) handle {
	return func(w http.ResponseWriter, r *http.Request, v *visit) {
		for name, values := range r.URL.Query() {
			at := "query"
			if fieldName().MatchString(name) { // another may be any text
				at += "." + name
			}
			switch {
			case !slices.Contains(parameters, name):
				h.refuse(w, r, bad(at, "unknown query parameter"))
				return
			case len(values) > 1:
				h.refuse(w, r, bad(at, "given more than once"))
				return
			}
		}
		next(w, r, v)
	}
}

// native is the voice of /api/v1/chat: the events of POST /api/v1/operate, without what goes on inside.
type native struct{ last turn.Position }

// messageAnswer is what came of a message; in a stream it is the data of done.
type messageAnswer struct {
	Answer      string           `json:"answer"`
	Status      execution.Status `json:"status"` // waiting, parked: the answer comes into the thread
	ExecutionID string           `json:"executionId"`
	TraceID     trace.ID         `json:"traceId"`
	ThreadID    string           `json:"threadId"`
	Usage       tokenUsage       `json:"usage"`
}

type tokenUsage struct {
	Prompt     int64 `json:"promptTokens"`
	Completion int64 `json:"completionTokens"`
	Total      int64 `json:"totalTokens"`
}

func (*native) answer(r turn.Reply) any {
	return messageAnswer{
		Answer: visibleText(r), Status: r.Status, ExecutionID: r.Execution, TraceID: r.Trace, ThreadID: r.Thread,
		Usage: tokenUsage{r.Prompt, r.Completion, r.Prompt + r.Completion},
	}
}

func (*native) begin(b *bytes.Buffer, _, _ string) { b.WriteString(sse.ComeBack + "\n") }

// nativeStep is where a call is. Its skill, its arguments and its result are nobody's outside.
type nativeStep struct {
	CallID string `json:"callId"`
	Status string `json:"status"`
}

func (n *native) event(b *bytes.Buffer, e turn.Event) {
	n.last = e.After
	switch id := e.After.String(); {
	case e.Restart:
		sse.Event(b, id, "restart", struct{}{})
	case e.Text != "":
		sse.Event(b, id, "delta", map[string]string{"text": e.Text})
	default:
		sse.Event(b, id, "step", nativeStep{e.Call.ID, e.Call.Status})
	}
}

func (n *native) end(b *bytes.Buffer, r turn.Reply) {
	sse.Event(b, n.last.String(), "done", n.answer(r))
}

// events follows an execution: GET /api/v1/chat/{threadId}/executions/{executionId}/events.
func (h *Handler) events(w http.ResponseWriter, r *http.Request, v *visit) {
	id := strings.ToLower(r.PathValue("execution"))
	p := v.identify(r, r.URL.Query().Get("user"))
	if p == nil {
		p = h.look(r.Context(), v)
	}
	if p == nil && (uuid.Validate(id) != nil || len(id) != 36) {
		p = noThread
	}
	if p == nil {
		p = h.enter(r.Context(), v, r.PathValue("thread"))
	}
	var after turn.Position
	if at, event := goesOnAfter(r, "after"); event != "" && p == nil {
		var err error
		if after, err = turn.ParsePosition(event); err != nil {
			p = bad(at, "expected the id of an event")
		}
	}
	if p == nil {
		_, t, missing := h.turnOf(r, v, id)
		if p = missing; p == nil && t.ID != strings.ToLower(r.PathValue("thread")) {
			p = noThread
		}
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	h.follow(w, r, v, id, after, &native{last: after})
}

// goesOnAfter returns the event that a stream goes on after, empty for all events, and where the request
// names it. Last-Event-ID takes precedence over the query's parameter.
func goesOnAfter(r *http.Request, parameter string) (at, event string) {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		return "header.Last-Event-ID", last
	}
	return "query." + parameter, r.URL.Query().Get(parameter)
}

// spokenItem is a message of a conversation.
type spokenItem struct {
	ID          string    `json:"id"`
	Role        string    `json:"role"` // user or assistant
	Body        string    `json:"body"`
	ExecutionID string    `json:"executionId,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
}

type spokenPage struct {
	Items      []spokenItem `json:"items"`
	NextCursor *string      `json:"nextCursor"` // null at the end
}

// history lists what was spoken, oldest first: GET /api/v1/chat/{threadId}/messages.
func (h *Handler) history(w http.ResponseWriter, r *http.Request, v *visit) {
	query := r.URL.Query()
	p := v.identify(r, query.Get("user"))
	if p == nil {
		p = h.look(r.Context(), v)
	}
	after, limit := int64(0), 0
	if p == nil {
		after, limit, p = pageOf(query.Get("cursor"), query.Get("limit"))
	}
	if p == nil {
		p = h.enter(r.Context(), v, r.PathValue("thread"))
	}
	if p != nil {
		h.refuse(w, r, p)
		return
	}
	ctx, cancel := within(r.Context())
	defer cancel()
	all, more, err := h.Threads.Messages(ctx, v.Workspace, strings.ToLower(r.PathValue("thread")), after, limit)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	page := spokenPage{Items: make([]spokenItem, 0, len(all))}
	size := 0
	for i, m := range all {
		if size += len(m.Body); size > maxPageBytes && i > 0 {
			all, more = all[:i], true
			break
		}
		if m.Role == thread.User || m.Role == thread.Assistant {
			page.Items = append(page.Items, spokenItem{m.ID, string(m.Role), m.Body, m.Execution, m.CreatedAt.UTC()})
		}
	}
	if more {
		next := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(all[len(all)-1].Seq, 10)))
		page.NextCursor = &next
	}
	write(w, http.StatusOK, page)
}

const (
	maxPage      = 200
	maxPageBytes = 1 << 20 // of texts
)

// pageOf reads which page of a listing is asked for.
func pageOf(cursor, limit string) (after int64, most int, p *problem.Problem) {
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		n, wrong := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || wrong != nil || n < 0 {
			return 0, 0, bad("query.cursor", "expected a cursor of this listing")
		}
		after = n
	}
	if limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxPage {
			return 0, 0, bad("query.limit", "is 1 to 200")
		}
		most = n
	}
	return after, most, nil
}
