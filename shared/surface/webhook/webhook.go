// Package webhook is the world's surface: it takes the webhooks of a workspace's sources, verifies
// and stores them, and answers. What they ask for is done by package action, in another process.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Prefix is what the paths of webhooks begin with: /webhooks/{workspace}/{source}.
const Prefix = "/webhooks/"

// limit is how long one request may take, so that there is time to answer.
const limit = 8 * time.Second

// Handler takes webhooks. It keeps nothing between requests but what its parts do, and serves
// several at once.
type Handler struct {
	Inbox    *inbox.Store
	Limits   *ratelimit.Cache    // of requests that verify; nil: none
	Failures *ratelimit.Failures // of those that don't, by address; nil: none
	Traces   *trace.Source
	// Kick has what was stored for a workspace worked on soon, and does not wait for it. A kick that
	// gets lost costs a minute: what is due is looked for on a schedule.
	Kick func(context.Context, db.Workspace)
	Log  *slog.Logger
}

// receipt is the answer to a delivery.
type receipt struct {
	ID       string `json:"id"`
	Status   string `json:"status"` // received or duplicate
	Conflict bool   `json:"conflict,omitempty"`
}

// ServeHTTP answers 202 to a delivery that is stored, and 200 to one that was stored before. Other
// answers leave no row.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := h.Traces.New(trace.Webhook)
	ctx, cancel := context.WithTimeout(trace.With(r.Context(), id), limit)
	defer cancel()
	head := w.Header()
	head.Set("X-Trace-Id", string(id))
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	status, body, p := h.take(ctx, w, r)
	switch {
	case p != nil:
		p.Write(w, id)
	case status == http.StatusOK && body == nil: // the challenge is written
	default:
		head.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // whoever sent it may have left
	}
}

// take takes one request. A body that is nil, with 200, says that the answer is written.
func (h *Handler) take(ctx context.Context, w http.ResponseWriter, r *http.Request) (status int, body any, p *problem.Problem) {
	slug, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	if !ok || !strings.HasPrefix(r.URL.Path, Prefix) || slug == "" || name == "" || strings.Contains(name, "/") {
		return 0, nil, problem.New(http.StatusNotFound, "not_found", "webhooks are sent to "+Prefix+"{workspace}/{source}")
	}
	if r.Method != http.MethodPost {
		return 0, nil, problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "webhooks are sent with POST").
			With("Allow", http.MethodPost)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, nil, problem.New(http.StatusUnsupportedMediaType, "encoded", "the body must be sent without a Content-Encoding")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, inbox.MaxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return 0, nil, problem.New(http.StatusRequestEntityTooLarge, "too_large", "the body may have 1 MiB at most")
	}
	if err != nil {
		return 0, nil, problem.New(http.StatusBadRequest, "cut_off", "the body did not come whole")
	}
	found, p := h.find(ctx, slug, name, r.RemoteAddr)
	if p != nil {
		return 0, nil, p
	}
	ctx = trace.WithWorkspace(ctx, string(found.Workspace))
	request := inbox.Request{Header: r.Header, Body: raw}
	if p := h.verify(ctx, found, request, r.RemoteAddr); p != nil {
		return 0, nil, p
	}
	content, err := found.Read(request)
	if wrong, is := errors.AsType[*inbox.ContentError](err); is {
		status, code := http.StatusBadRequest, "bad_body"
		if wrong.Unsupported {
			status, code = http.StatusUnsupportedMediaType, "unsupported_body"
		}
		return 0, nil, problem.New(status, code, wrong.Why)
	}
	if content.Challenge != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, content.Challenge)
		return http.StatusOK, nil, nil
	}
	return h.store(ctx, found, content, raw)
}

// find finds the source that a request is for.
func (h *Handler) find(ctx context.Context, slug, name, address string) (inbox.Found, *problem.Problem) {
	var found inbox.Found
	err := inbox.ErrNotFound
	if inbox.Addressable(slug, name) {
		found, err = h.Inbox.Find(ctx, slug, name)
	}
	switch {
	case errors.Is(err, inbox.ErrNotFound) || err == nil && !found.Enabled:
		if p := h.tooMany(address); p != nil {
			return found, p
		}
		return found, problem.New(http.StatusNotFound, "not_found", "there is no such webhook source, or it is disabled")
	case err != nil:
		return found, h.unavailable(ctx, err)
	}
	return found, nil
}

// verify refuses requests with a wrong signature, and those that come too often. A request with a
// good signature is never refused for the bad ones of others.
func (h *Handler) verify(ctx context.Context, found inbox.Found, r inbox.Request, address string) *problem.Problem {
	secrets, err := h.Inbox.Secrets(ctx, found)
	if err != nil {
		return h.unavailable(ctx, err)
	}
	err = found.Verify(r, secrets, found.Now)
	if wrong, is := errors.AsType[*inbox.RejectedError](err); is {
		if p := h.tooMany(address); p != nil {
			return p
		}
		if err := h.Inbox.Reject(ctx, found); err != nil {
			h.Log.ErrorContext(ctx, "a rejected webhook could not be counted", "source", found.Name, "error", err)
		}
		h.Log.WarnContext(ctx, "webhook rejected", "source", found.Name, "kind", found.Kind, "why", wrong.Why)
		return problem.New(http.StatusUnauthorized, "signature", wrong.Error())
	}
	if err != nil {
		return h.unavailable(ctx, err)
	}
	if h.Limits == nil {
		return nil
	}
	every := func(*db.Batch) func() ratelimit.Limit { return func() ratelimit.Limit { return ratelimit.API } }
	if ok, wait := h.Limits.Take(ctx, found.Workspace, "webhook:"+found.ID, 1, every); !ok {
		return problem.New(http.StatusTooManyRequests, "rate_limited", "this source sends too many webhooks: send it again later").
			Later(wait)
	}
	return nil
}

// tooMany counts a request that nobody may make, and refuses those beyond what an address may.
func (h *Handler) tooMany(address string) *problem.Problem {
	over, wait := h.Failures.Count(address)
	if !over {
		return nil
	}
	return problem.New(http.StatusTooManyRequests, "rate_limited",
		"too many webhooks that were not accepted came from this address: wait, and check the secret").Later(wait)
}

// store stores a delivery. Only then it is answered as received.
func (h *Handler) store(ctx context.Context, found inbox.Found, c inbox.Content, raw []byte) (int, any, *problem.Problem) {
	got, err := h.Inbox.Receive(ctx, found, c, raw)
	if err != nil {
		return 0, nil, h.unavailable(ctx, err)
	}
	about := []any{"source", found.Name, "event", c.Event, "delivery", got.ID}
	if got.Duplicate {
		h.Log.InfoContext(ctx, "webhook came again", append(about, "conflict", got.Conflict)...)
		return http.StatusOK, receipt{ID: got.ID, Status: "duplicate", Conflict: got.Conflict}, nil
	}
	h.Log.InfoContext(ctx, "webhook received", append(about, "bytes", len(raw))...)
	if h.Kick != nil {
		h.Kick(ctx, found.Workspace)
	}
	return http.StatusAccepted, receipt{ID: got.ID, Status: "received"}, nil
}

// unavailable says that a request could not be taken now, whatever it is. Who sent it sends it again.
func (h *Handler) unavailable(ctx context.Context, err error) *problem.Problem {
	h.Log.ErrorContext(ctx, "a webhook could not be taken", "error", err)
	return problem.New(http.StatusServiceUnavailable, "unavailable", "the webhook could not be stored now: send it again").
		Later(5 * time.Second)
}
