package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

const (
	retryOutage = 5 * time.Second // after which to come back when the database is away
	retryFull   = 30 * time.Second
)

var (
	internal = problem.New(http.StatusInternalServerError, "internal", "something went wrong here")
	noThread = problem.New(http.StatusNotFound, "not_found", "there is no such conversation")
	noModel  = wrongField(http.StatusNotFound, "model_not_found", "body.model",
		"there is no such model: GET /v1/models lists those that there are")
	tooInstructed = problem.New(http.StatusBadRequest, "context_length_exceeded",
		"the instructions have 100 messages and 128 KiB at most: shorten them")
	sameKey = problem.New(http.StatusConflict, "busy", "a message with the same Idempotency-Key is answered").Later(time.Second)
	away    = problem.New(http.StatusServiceUnavailable, "unavailable",
		"the message could not be taken now: send it again").Later(retryOutage)
)

// wrongField refuses a field of a request.
func wrongField(status int, code, at, why string) *problem.Problem {
	p := problem.New(status, code, "the request has a field that can't be taken")
	p.Errors = []problem.FieldError{problem.At(at, why)}
	return p
}

// bad refuses a field of a request as malformed.
func bad(at, why string) *problem.Problem {
	return wrongField(http.StatusBadRequest, "invalid", at, why)
}

// answers is the one place where errors of turns become statuses; the first row that matches counts.
var answers = []struct {
	err     error
	problem *problem.Problem
}{
	{turn.ErrNoThread, noThread},
	{turn.ErrOpener, problem.New(http.StatusNotFound, "not_found",
		"this visitor's conversation was not begun with this site key: use the key that began it, or another name for the visitor")},
	{db.ErrNoRows, noThread},
	{persona.ErrNotFound, noModel},
	{turn.ErrNoPersona, noModel},
	{turn.ErrMultitask, bad("header."+strategyHeader, knownStrategies)},
	{turn.ErrNotYours, problem.New(http.StatusConflict, "busy",
		"somebody else's message is answered in this conversation").Later(retryOutage)},
	{turn.ErrSpent, problem.New(http.StatusTooManyRequests, "spent",
		"the tokens of this conversation in 24 hours are used up: begin another one, or come back later").Later(time.Hour)},
	{turn.ErrBudget, problem.New(http.StatusTooManyRequests, "insufficient_quota",
		"what may be spent here is used up: come back later").Later(time.Hour)},
	{turn.ErrInstructions, problem.New(http.StatusBadRequest, "context_length_exceeded",
		"the instructions leave the message no room in the model's context window: shorten them")},
	{turn.ErrLine, problem.New(http.StatusTooManyRequests, "queue_full",
		"too many messages of this conversation wait for their answer").Later(retryFull)},
	{db.ErrUnique, sameKey},
	{thread.ErrFull, problem.New(http.StatusTooManyRequests, "queue_full", "too many messages of this conversation wait").Later(retryFull)},
}

// fail answers with the problem that an error is: never with its text.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.refuse(w, r, h.problem(r.Context(), err))
}

func (h *Handler) problem(ctx context.Context, err error) *problem.Problem {
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p
	}
	if b, ok := errors.AsType[*lane.BusyError](err); ok {
		if _, ok := lane.ExecutionOf(b.Lane); ok { // which the key names: it came twice at once
			return sameKey
		}
		return problem.New(http.StatusConflict, "busy",
			"another message of this conversation is answered").Later(max(time.Second, min(b.Remaining, retryOutage)))
	}
	if held, ok := errors.AsType[*thread.HeldError](err); ok {
		return problem.New(http.StatusConflict, "busy", "another message of this conversation is answered").Later(held.RetryAfter())
	}
	if wrong, ok := errors.AsType[*problem.InvalidError](err); ok {
		h.Log.WarnContext(ctx, "a store refused what chat let through", "error", err)
		p := problem.New(http.StatusBadRequest, "invalid", "the request has fields that can't be taken")
		for _, f := range wrong.Fields {
			p.Errors = append(p.Errors, problem.At("body", f.Problem))
		}
		return p
	}
	if none, ok := errors.AsType[*turn.UnpricedError](err); ok {
		return h.unpriced(ctx, none)
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return a.problem
		}
	}
	level := slog.LevelError
	if errors.Is(err, context.Canceled) { // the client has disconnected
		level = slog.LevelInfo
	}
	h.Log.Log(ctx, level, "a request failed", "error", err)
	_, old := errors.AsType[*db.SchemaError](err)
	_, newer := errors.AsType[*db.NewerSchemaError](err)
	if old || newer {
		return away
	}
	for _, passing := range []error{db.ErrUnavailable, db.ErrUncertain, db.ErrFull, db.ErrCorrupt, db.ErrUnsafeRole,
		context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, passing) {
			return away
		}
	}
	return internal
}

// unpriced refuses a message that no answer can be paid for. Visitors of a site learn nothing of models and money.
func (h *Handler) unpriced(ctx context.Context, none *turn.UnpricedError) *problem.Problem {
	h.Log.ErrorContext(ctx, "a message was refused: a budget is capped in money, and its model has no price", "model", none.Model)
	why := "no answer can be given here now: come back later"
	if p, _ := auth.From(ctx); p.Kind != auth.Site {
		why = "a budget is capped in money, and the model " + none.Model + " has no price: " +
			"the owner of the database adds it to the table model_prices, or an admin gives the persona a model that has one"
	}
	return problem.New(http.StatusTooManyRequests, "insufficient_quota", why).Later(time.Hour)
}

// strange is why a request has no principal.
func (h *Handler) strange(r *http.Request, err error) *problem.Problem {
	if errors.Is(err, auth.ErrInvalid) {
		if over, wait := h.Failures.Count(r.RemoteAddr); over {
			return problem.New(http.StatusTooManyRequests, "rate_limited",
				"too many bad credentials came from this address: wait, and check the key").Later(wait)
		}
	}
	if p := auth.Refusal(err); p != nil {
		return p
	}
	return h.problem(r.Context(), err)
}

// refuse answers with a problem: under /v1 in the shape of other chat APIs.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		refuseV1(w, p)
		return
	}
	// as all of /api/v1 says so, where only what is malformed gets a 400
	if p.Status == http.StatusBadRequest && p.Code != "malformed" && len(p.Errors) > 0 {
		copied := *p
		copied.Status, copied.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
		p = &copied
	}
	p.Write(w, trace.ID(w.Header().Get(traceHeader)))
}

// errorBody is an error under /v1.
type errorBody struct {
	Error errorItem `json:"error"`
}

type errorItem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// codesV1 are codes that clients of other chat APIs know.
var codesV1 = map[string]string{
	"invalid_token": "invalid_api_key", "missing_token": "invalid_api_key",
	"spent":        "insufficient_quota",
	"rate_limited": "rate_limit_exceeded", "queue_full": "rate_limit_exceeded", "too_many_streams": "rate_limit_exceeded",
}

func refuseV1(w http.ResponseWriter, p *problem.Problem) {
	e := errorItem{Message: p.Detail, Code: p.Code}
	if code, ok := codesV1[p.Code]; ok {
		e.Code = code
	}
	if len(p.Errors) > 0 {
		param, _ := strings.CutPrefix(p.Errors[0].Location, "body.")
		e.Param, e.Message = &param, param+": "+p.Errors[0].Message
	}
	switch p.Status {
	case http.StatusUnauthorized:
		e.Type = "authentication_error"
	case http.StatusForbidden:
		e.Type = "permission_error"
	case http.StatusTooManyRequests:
		e.Type = e.Code
	default:
		e.Type = "invalid_request_error"
		if p.Status >= http.StatusInternalServerError {
			e.Type = "server_error"
		}
	}
	maps.Copy(w.Header(), p.Header())
	write(w, p.Status, errorBody{e})
}

// write writes an answer. The writer gets nothing before all of it is there.
func write(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it always encodes
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the caller may have left
}
