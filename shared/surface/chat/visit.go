package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// visit is one request of a caller.
type visit struct {
	auth.Principal
	from    string // the address of the caller
	visitor string // empty: none is named
	fresh   bool   // the visitor got the name here
	counted bool   // among the messages of the visitor
}

// persona is the only agent that the caller may talk with; empty: there are others. A site key that
// names none is for the built-in one.
func (v *visit) persona() string {
	if v.Kind == auth.Site {
		return cmp.Or(v.Persona, persona.VisitorChat)
	}
	return ""
}

// model is the name of the agent that is asked for; empty: the only one, or the built-in one.
func (v *visit) model(name string) string { return cmp.Or(name, v.persona(), persona.VisitorChat) }

// maxName is the longest name of a visitor, or of an agent, in bytes.
const maxName = 256

// fit reports whether a name from outside can be stored, and stand in a header.
func fit(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// identify takes who the visitor is from the header, else from the request's user.
func (v *visit) identify(r *http.Request, user string) *problem.Problem {
	if len(r.Header.Values(sessionHeader)) > 1 {
		return problem.Repeated(sessionHeader)
	}
	at, name := "body.user", user
	if r.Method == http.MethodGet {
		at = "query.user"
	}
	if session := r.Header.Get(sessionHeader); session != "" {
		at, name = "header."+sessionHeader, session
	}
	name = strings.Trim(name, " ") // which no header carries
	if len(name) > maxName || !fit(name) {
		return bad(at, "is a text of at most 256 bytes, without control characters")
	}
	v.visitor = name
	return nil
}

// by is who talks.
func (v *visit) by() string {
	if v.Kind == auth.Site || v.Kind == auth.Key {
		return "visitor:" + v.visitor
	}
	return v.String()
}

// opener is the site whose visitors have only the conversations that it opened; empty: all of the
// workspace's are the caller's.
func (v *visit) opener() string {
	if v.Kind == auth.Site {
		return v.String()
	}
	return ""
}

// reaches reports whether the caller's conversations include one.
func (v *visit) reaches(t thread.Thread) bool {
	return t.Channel == Channel && (v.opener() == "" || t.Metadata[turn.OpenedBy] == v.opener())
}

// caller is who may have so many answers open, or ask so often: each visitor of a site, or the address
// of those who have no name.
func (v *visit) caller() string {
	switch {
	case v.Kind != auth.Site:
		return v.String()
	case v.visitor != "":
		return v.String() + " " + string(laneOf(v.visitor))
	}
	return v.String() + " " + v.address()
}

// address is the network of the caller.
func (v *visit) address() string { return "address:" + ratelimit.NetworkOf(v.from).String() }

// enter finds the conversation of a request, and names a visitor who has no name. The visitors of a
// site can reach only their own.
func (h *Handler) enter(ctx context.Context, v *visit, id string) *problem.Problem {
	if id == "" {
		if v.visitor == "" {
			v.visitor, v.fresh = rand.Text(), true
		}
		return nil
	}
	if uuid.Validate(id) != nil || len(id) != 36 {
		return noThread
	}
	ctx, cancel := within(ctx)
	defer cancel()
	found, err := h.Threads.Get(ctx, v.Workspace, strings.ToLower(id))
	switch {
	case errors.Is(err, db.ErrNoRows), err == nil && (!v.reaches(found) || v.Kind == auth.Site && found.Address != v.visitor):
		return noThread
	case err != nil:
		return h.problem(ctx, err)
	}
	v.visitor = found.Address
	return nil
}

// perAddress is how many visitors of a site one address counts for: networks share one.
const perAddress = 10

// count takes a message from what the visitor and the workspace may send in a minute. The visitors of a
// site choose their names, so their address is counted too: not for who is told to wait, because others
// share the address.
func (h *Handler) count(ctx context.Context, v *visit) *problem.Problem {
	if h.Limits == nil || v.counted {
		return nil
	}
	v.counted = true
	bucket, address := "", "" // each message begins a conversation: the workspace's limit is theirs
	switch {
	case v.Kind == auth.Site:
		bucket, address = v.caller(), v.address()
	case v.visitor != "":
		bucket = string(laneOf(v.visitor))
	}
	if address != "" {
		if wait := h.Limits.Wait(v.Workspace, buckets+address); wait > 0 { // new names cost nothing then
			return tooMany(wait)
		}
	}
	for _, b := range []struct {
		key string
		of  func(workspace.Settings) int
	}{
		{bucket, func(s workspace.Settings) int { return s.ChatVisitorMessages }},
		{address, func(s workspace.Settings) int { return perAddress * s.ChatVisitorMessages }},
		{Channel, func(s workspace.Settings) int { return s.ChatMessages }},
	} {
		if b.key == "" {
			continue
		}
		if p := h.take(ctx, v.Workspace, b.key, b.of); p != nil {
			return p
		}
	}
	return nil
}

// reads is how many reads count as one message.
const reads = 10

// look takes a read from what the caller may read in a minute: the visitors of a site like their
// messages, others as many as the workspace takes messages. Reading goes on where the workspace takes
// none.
func (h *Handler) look(ctx context.Context, v *visit) *problem.Problem {
	if h.Limits == nil {
		return nil
	}
	usual := workspace.Defaults()
	visitor := func(s workspace.Settings) int {
		return reads * cmp.Or(s.ChatVisitorMessages, usual.ChatVisitorMessages)
	}
	if v.Kind != auth.Site {
		return h.take(ctx, v.Workspace, "read:"+v.caller(),
			func(s workspace.Settings) int { return reads * cmp.Or(s.ChatMessages, usual.ChatMessages) })
	}
	if v.visitor != "" {
		if p := h.take(ctx, v.Workspace, "read:"+v.caller(), visitor); p != nil {
			return p
		}
	}
	return h.take(ctx, v.Workspace, "read:"+v.address(), func(s workspace.Settings) int { return perAddress * visitor(s) })
}

// buckets is how the keys of chat's buckets begin.
const buckets = "chat:"

// tooMany refuses a message, or a read, for a time.
func tooMany(wait time.Duration) *problem.Problem {
	return problem.New(http.StatusTooManyRequests, "rate_limited", "too many requests: send it again later").Later(wait)
}

// take takes a message from a bucket that a setting bounds, in messages a minute. It does so for
// callers who have left too, because a turn goes on without them.
func (h *Handler) take(ctx context.Context, ws db.Workspace, key string, of func(workspace.Settings) int) *problem.Problem {
	none := false
	rate := func(b *db.Batch) func() ratelimit.Limit {
		read := h.Workspaces.Settings(b)
		return func() ratelimit.Limit {
			set, err := read()
			if err != nil { // others tell of it
				set = workspace.Defaults()
			}
			n := of(set)
			none = n == 0
			return perMinute(max(n, 1))
		}
	}
	ok, wait := h.Limits.TakeFirst(context.WithoutCancel(ctx), ws, buckets+key, 1, perMinute(of(workspace.Defaults())), rate)
	switch {
	case none:
		return problem.New(http.StatusTooManyRequests, "rate_limited", "this workspace takes no messages").Later(time.Minute)
	case !ok:
		return tooMany(wait)
	}
	return nil
}

// perMinute is a limit of n a minute.
func perMinute(n int) ratelimit.Limit { return ratelimit.Limit{PerSecond: float64(n) / 60, Burst: n} }

// strategy is what a message does that comes while another is answered.
func strategy(r *http.Request) turn.Multitask {
	return turn.Multitask(strings.ToLower(r.Header.Get(strategyHeader)))
}

// early counts a message whose visitor the header names, before its body is read.
func (h *Handler) early(r *http.Request, v *visit) *problem.Problem {
	if r.Header.Get(sessionHeader) == "" {
		return nil
	}
	if p := v.identify(r, ""); p != nil {
		return p
	}
	return h.count(r.Context(), v)
}
