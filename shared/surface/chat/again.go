package chat

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
)

// keyOf returns the Idempotency-Key of a message; empty: it has none. It refuses several keys, because
// each would name another execution.
func keyOf(r *http.Request) (string, *problem.Problem) {
	keys := r.Header.Values(keyHeader)
	switch len(keys) {
	case 0:
		return "", nil
	case 1:
		return keys[0], nil
	}
	return "", problem.Repeated(keyHeader)
}

// checkKey refuses an Idempotency-Key that can't be heeded: a page's visitors have to say who they are,
// because the key of a site is everybody's.
func checkKey(v *visit, m message, key string) *problem.Problem {
	switch {
	case len(key) > maxName:
		return bad("header."+keyHeader, "is a text of at most 256 bytes")
	case key != "" && v.Kind == auth.Site && v.visitor == "" && m.thread == "":
		return bad("header."+keyHeader, "is a visitor's: name the visitor with "+sessionHeader)
	}
	return nil
}

// idOf returns the id of the execution of a message that has an Idempotency-Key; empty: it has none.
// The key is the visitor's, or the caller's own where the request names no visitor, so that a message
// has one execution however often it comes.
func idOf(v *visit, key string) string {
	if key == "" {
		return ""
	}
	visitor := v.visitor
	if v.fresh {
		visitor = ""
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(string(v.Workspace)+"\x00"+v.String()+"\x00"+visitor+"\x00"+key)).String()
}

// again answers a message that came before with the same Idempotency-Key, and reports whether it did:
// a stream is told from its beginning, and another answer is given once the turn has ended.
func (h *Handler) again(w http.ResponseWriter, r *http.Request, v *visit, m message, id string, as voice) bool {
	ctx, cancel := within(r.Context())
	defer cancel()
	e, err := h.Runs.Get(ctx, v.Workspace, id)
	if errors.Is(err, db.ErrNoRows) {
		return false
	}
	if err != nil {
		h.fail(w, r, err)
		return true
	}
	name, message, ok := h.AskedOf(e)
	if !ok || message != redact.From(ctx).Values().Text(m.body) {
		h.refuse(w, r, problem.New(http.StatusUnprocessableEntity, "other_message", "another message came with the same Idempotency-Key"))
		return true
	}
	if v.fresh { // the visitor who got a name then
		t, err := h.Threads.Get(ctx, v.Workspace, name)
		if err != nil {
			h.fail(w, r, err)
			return true
		}
		v.visitor = t.Address
		w.Header().Set(sessionHeader, v.visitor)
	}
	w.Header().Set(replayedHeader, "true")
	w.Header().Set(threadHeader, name)
	if m.stream {
		h.follow(w, r, v, id, turn.Position{}, as)
		return true
	}
	reply, err := h.stands(r, v, id)
	switch {
	case err != nil:
		h.fail(w, r, err)
	case reply == nil:
		h.refuse(w, r, sameKey)
	default:
		w.Header().Set(executionHeader, reply.Execution)
		write(w, http.StatusOK, as.answer(*reply))
	}
	return true
}
