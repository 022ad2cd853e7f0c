// Package webhook is the HTTP surface for webhooks. It receives the webhooks of a workspace's
// sources, verifies and stores them, and answers. Package action performs their actions, in another
// process.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Prefix is the beginning of the paths of webhooks: /webhooks/{workspace}/{source}.
const Prefix = "/webhooks/"

// limit is the time limit of one request. It leaves time for the response.
const limit = 8 * time.Second

const (
	bodyTime = 5 * time.Second // for a body to arrive, so that there is time to store it
	maxTaken = 16 << 20        // bytes of all bodies in this process
)

// Handler receives webhooks. It is safe for concurrent use and must not be copied.
type Handler struct {
	Inbox    *inbox.Store
	Limits   *ratelimit.Cache    // per source, for verified requests; nil: none
	Failures *ratelimit.Failures // per address, for other requests; nil: none
	Traces   *trace.Source
	// Kick starts the processing of a workspace's stored deliveries and does not wait for it. If a
	// kick is lost, the schedule finds them within a minute.
	Kick   func(context.Context, db.Workspace)
	Meters *observe.Meters // nil: nothing is counted
	Log    *slog.Logger

	room intake.Room
}

// receipt is the response to a delivery.
type receipt struct {
	ID       string `json:"id"`
	Status   string `json:"status"` // received or duplicate
	Conflict bool   `json:"conflict,omitempty"`
}

// ServeHTTP answers 202 to a delivery that it has stored, and 200 to one that was stored before. Where a person waits in
// Slack for the answer, that is 200 without a body in both cases.
// After any other response nothing is stored.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := h.Traces.New(trace.Webhook)
	ctx, cancel := context.WithTimeout(trace.With(r.Context(), id), limit)
	defer cancel()
	head := w.Header()
	head.Set("X-Trace-Id", string(id))
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	intake.Expect(w, r, bodyTime) // also of what nobody reads
	status, body, p := h.take(ctx, w, r)
	switch {
	case p != nil:
		p.Write(w, id)
	case status == http.StatusOK && body == nil: // the answer is written already
	default:
		head.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the sender may have disconnected
	}
}

// take handles one request. A nil body with status 200 says that the response is written already.
func (h *Handler) take(ctx context.Context, w http.ResponseWriter, r *http.Request) (status int, body any, p *problem.Problem) {
	slug, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
	if !ok || !strings.HasPrefix(r.URL.Path, Prefix) || slug == "" || name == "" || strings.Contains(name, "/") {
		return 0, nil, problem.New(http.StatusNotFound, "not_found", "webhooks are sent to "+Prefix+"{workspace}/{source}")
	}
	if r.Method == http.MethodOptions && r.Header.Get("WebHook-Request-Origin") != "" {
		if p := h.welcome(ctx, w, slug, name, r.RemoteAddr); p != nil {
			return 0, nil, p
		}
		return http.StatusOK, nil, nil
	}
	if r.Method != http.MethodPost {
		return 0, nil, problem.New(http.StatusMethodNotAllowed, "method_not_allowed", "webhooks are sent with POST").
			With("Allow", http.MethodPost)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, nil, problem.New(http.StatusUnsupportedMediaType, "encoded", "the body must be sent without a Content-Encoding")
	}
	raw, free, p := intake.Read(w, r, intake.Limits{
		Size: inbox.MaxBody, Time: bodyTime, Room: &h.room, Total: maxTaken, From: ratelimit.NetworkOf(r.RemoteAddr),
	})
	if p != nil {
		return 0, nil, p
	}
	defer free()
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
		if wrong.Repeated != "" {
			return 0, nil, problem.Repeated(wrong.Repeated)
		}
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
	status, body, p = h.store(ctx, found, content, raw)
	if p == nil && content.Quiet {
		w.WriteHeader(http.StatusOK)
		return http.StatusOK, nil, nil
	}
	return status, body, p
}

// welcome answers a sender of CloudEvents that asks before it sends whether the source takes its events, and how many a
// minute. It says nothing about who may send: each delivery proves that by its signature.
func (h *Handler) welcome(ctx context.Context, w http.ResponseWriter, slug, name, address string) *problem.Problem {
	if _, p := h.find(ctx, slug, name, address); p != nil {
		return p
	}
	head := w.Header()
	head.Set("Allow", http.MethodPost)
	head.Set("WebHook-Allowed-Origin", "*")
	head.Set("WebHook-Allowed-Rate", strconv.Itoa(int(60*ratelimit.API.PerSecond)))
	w.WriteHeader(http.StatusOK)
	return nil
}

// find returns the source that a request names.
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

// verify refuses requests with a wrong signature, and requests beyond the rate limit. A request
// with a good signature is never refused because of other requests with bad ones.
func (h *Handler) verify(ctx context.Context, found inbox.Found, r inbox.Request, address string) *problem.Problem {
	secrets, err := h.Inbox.Secrets(ctx, found)
	if err != nil {
		return h.unavailable(ctx, err)
	}
	err = found.Verify(r, secrets, found.Now)
	if wrong, is := errors.AsType[*inbox.RejectedError](err); is {
		h.Meters.Webhook(string(found.Kind), observe.Rejected)
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

// tooMany counts a request that was not accepted. It returns a problem once an address has sent too
// many.
func (h *Handler) tooMany(address string) *problem.Problem {
	over, wait := h.Failures.Count(address)
	if !over {
		return nil
	}
	return problem.New(http.StatusTooManyRequests, "rate_limited",
		"too many webhooks that were not accepted came from this address: wait, and check the secret").Later(wait)
}

// store stores a delivery. The response that confirms it is sent only afterwards.
func (h *Handler) store(ctx context.Context, found inbox.Found, c inbox.Content, raw []byte) (int, any, *problem.Problem) {
	got, err := h.Inbox.Receive(ctx, found, c, raw)
	if err != nil {
		return 0, nil, h.unavailable(ctx, err)
	}
	about := []any{"source", found.Name, "event", c.Event, "delivery", got.ID}
	if got.Duplicate {
		h.Meters.Webhook(string(found.Kind), observe.Duplicate)
		h.Log.InfoContext(ctx, "webhook came again", append(about, "conflict", got.Conflict)...)
		return http.StatusOK, receipt{ID: got.ID, Status: "duplicate", Conflict: got.Conflict}, nil
	}
	h.Meters.Webhook(string(found.Kind), observe.Verified)
	h.Log.InfoContext(ctx, "webhook received", append(about, "bytes", len(raw))...)
	if h.Kick != nil {
		h.Kick(ctx, found.Workspace)
	}
	return http.StatusAccepted, receipt{ID: got.ID, Status: "received"}, nil
}

// unavailable returns the problem for a request that could not be stored now. The sender repeats
// it.
func (h *Handler) unavailable(ctx context.Context, err error) *problem.Problem {
	h.Log.ErrorContext(ctx, "a webhook could not be taken", "error", err)
	return problem.New(http.StatusServiceUnavailable, "unavailable", "the webhook could not be stored now: send it again").
		Later(5 * time.Second)
}
