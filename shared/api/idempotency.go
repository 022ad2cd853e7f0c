package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	// keyHeader identifies a request. A client may repeat the request with the same key, and it
	// takes effect once.
	keyHeader = "Idempotency-Key"
	// replayedHeader marks an answer that was given before.
	replayedHeader = "Idempotency-Replayed"
	// maxKept is the largest response that is stored, in bytes.
	maxKept = 256 << 10
	// keyTime is how long a request holds its key: as long as it may take, with the last write. After
	// that, a repeated request may take the key over, as it must when the process has died. Routes with
	// a time limit of their own hold the key longer.
	keyTime = limit + keyEnd
	// keyEnd is the time limit for storing how a request ended.
	keyEnd = 5 * time.Second
)

var (
	keyReused = problem.New(http.StatusUnprocessableEntity, "key_reused", "the Idempotency-Key was used for another request")
	keyInUse  = problem.New(http.StatusConflict, "in_progress",
		"the request with this Idempotency-Key is still being worked on").Later(2 * time.Second)
	notKept = problem.New(http.StatusConflict, "answer_not_kept",
		"the request with this Idempotency-Key was done, and is not done again; its answer was not kept: it was shown once, "+
			"streamed or too large")
	severalKeys = problem.Repeated(keyHeader)
	badKey      = invalid(problem.At("header."+keyHeader, "expected one of 1 to 255 visible ASCII characters"))
)

// executionHeader names the execution of a streamed response.
const executionHeader = "X-Execution-Id"

// keptHeaders lists the headers that are stored with a response.
var keptHeaders = []string{"Content-Type", "Etag", "Location"}

// idempotency executes a request with an Idempotency-Key once. A repetition within keyLife gets the
// stored response.
//
// A response with status 5xx or with Retry-After frees the key, so that the client can retry. If
// the process dies during a request, or cannot store how the request ended, a repetition executes
// the request again once the claim has expired. Changes that the first request had committed stay
// committed. What [server.newID] names is created once even then, and what [claimedID] names is done once.
type idempotency struct {
	server *server
	keys   *keyStore
}

func newIdempotency(s *server) (*idempotency, error) {
	keys, err := newKeyStore(s.DB)
	if err != nil {
		return nil, err
	}
	return &idempotency{s, keys}, nil
}

// keyed describes a route for [idempotency.once].
type keyed struct {
	route string // its operation id
	// sensitive says that the response holds a secret, which is shown only once. Only refusals of
	// such a route are stored.
	sensitive bool
	// within is the longest time that a request takes; at least keyTime applies.
	within time.Duration
	// again says that the handler gives what it gave before to the repetition of a request whose response was not
	// stored, and has no other effect.
	again bool
	// begins is how long a living process takes at most until it has begun an execution, which a second process
	// can't begin again; 0: it begins none.
	begins time.Duration
}

// once wraps a route's handler. It must run after the checks of the token and of the body's size,
// because it reads the whole body into memory.
func (i *idempotency) once(rt keyed, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := r.Header.Values(keyHeader)
		if len(keys) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if len(keys) > 1 {
			i.server.refuse(w, r, severalKeys)
			return
		}
		if !visible(keys[0]) {
			i.server.refuse(w, r, badKey)
			return
		}
		c, err := i.claimOf(rt, keys[0], r)
		if err != nil {
			i.server.fail(w, r, err)
			return
		}
		mine, found, err := i.keys.claim(r.Context(), c, max(keyTime, rt.within), rt.begins)
		switch {
		case err != nil:
			i.server.fail(w, r, err)
		case mine != nil:
			i.work(c, rt.sensitive, w, r.WithContext(context.WithValue(r.Context(), claimedKey{}, c.newID(*mine))), next)
		case found == nil: // the claim was freed in the meantime
			i.server.refuse(w, r, keyInUse)
		case found.request != c.request:
			i.server.refuse(w, r, keyReused)
		case !found.done:
			i.underWay(rt, c.newID(found.first), found.old, w, r, next)
		case found.body == nil && rt.again:
			w.Header().Set(replayedHeader, "true")
			ctx := context.WithValue(r.Context(), claimedKey{}, c.newID(found.first))
			next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, repeatedKey{}, true)))
		case found.body == nil:
			i.server.refuse(w, r, notKept)
		default:
			replay(w, found)
		}
	})
}

// underWay answers a request that is still worked on. If an execution works on it, the problem names the execution,
// which the client can follow, also if the process of the request has died. If that execution has ended, the handler
// answers: it finds the execution, and can't begin it again. If the process has died before it began the execution, the
// handler begins it.
func (i *idempotency) underWay(rt keyed, id string, old bool, w http.ResponseWriter, r *http.Request, next http.Handler) {
	p := keyInUse
	if rt.within > 0 {
		e, err := i.server.Runs.Get(r.Context(), workspace(r.Context()), id)
		switch {
		case err == nil && e.Status.Ended(), rt.begins > 0 && old && errors.Is(err, db.ErrNoRows):
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), claimedKey{}, id)))
			return
		case err == nil:
			p = doingBy(e.ID)
		}
	}
	i.server.refuse(w, r, p)
}

// visible reports whether s is a valid key: 1 to 255 visible ASCII characters.
func visible(s string) bool {
	return len(s) >= 1 && len(s) <= 255 && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// claimOf builds the claim of a request. The request's body can still be read afterwards.
func (i *idempotency) claimOf(rt keyed, key string, r *http.Request) (keyClaim, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return keyClaim{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	by, _ := auth.From(r.Context())
	return keyClaim{
		ws: by.Workspace, route: rt.route, principal: string(by.Kind) + ":" + by.ID, token: i.server.IDs(),
		keyHash: digest(key), request: digest(r.URL.EscapedPath(), r.URL.RawQuery, string(body)),
	}, nil
}

// claimedKey is the context key of the id for what a request with an idempotency key creates.
type claimedKey struct{}

// repeatedKey is the context key that says whether a request repeats one that was done.
type repeatedKey struct{}

// newID derives an id from a claim, so that each execution of the request gets the same one. It is a UUID of
// version 7 (RFC 9562) whose random bits are taken from a digest.
func (c keyClaim) newID(first time.Time) string {
	at := first.UnixMicro()
	sum := sha256.Sum256([]byte(digest(string(c.ws), c.route, c.principal, c.keyHash, c.request, strconv.FormatInt(at, 10))))
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at/1000)) //nolint:gosec // after 1970
	id := uuid.UUID(sum[:16])
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 7<<4
	id[8] = id[8]&0x3f | 0b10<<6
	return id.String()
}

// claimedID returns the id for what a request with an Idempotency-Key creates; empty: it has no key.
func claimedID(ctx context.Context) string {
	id, _ := ctx.Value(claimedKey{}).(string)
	return id
}

// newID returns the id for what a request creates. If an earlier execution of the same request, with its
// Idempotency-Key, has created it, it can't be created again: see [before].
func (s *server) newID(ctx context.Context) string {
	if id := claimedID(ctx); id != "" {
		return id
	}
	return s.IDs()
}

// before returns what an earlier execution of the same request has created, whose response was lost, if this
// one could not create it. Otherwise it returns what this one has created, or why it has not.
func before[T any](ctx context.Context, made T, err error, get func(context.Context, db.Workspace, string) (T, error)) (T, error) {
	id := claimedID(ctx)
	if err == nil || id == "" {
		return made, err
	}
	if was, missing := get(ctx, workspace(ctx), id); missing == nil {
		return was, nil
	}
	return made, err
}

// shownOnce is [before] for what shows a secret when it is created, and only then.
func shownOnce[T any](ctx context.Context, err error, get func(context.Context, db.Workspace, string) (T, error)) error {
	var none T
	if _, failed := before(ctx, none, err, get); err != nil && failed == nil {
		return notKept
	}
	return err
}

// digest returns the SHA-256 of several texts. It hashes each text by itself first, so that moving
// the border between two texts changes the digest.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		part := sha256.Sum256([]byte(t))
		h.Write(part[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// work executes the request, stores how it ended, and then sends the response. A client that has
// seen the response therefore gets the same one again.
func (i *idempotency) work(c keyClaim, sensitive bool, w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := &withheld{ResponseWriter: w}
	ended := false
	defer func() { i.end(r.Context(), c, sensitive, a, ended) }()
	next.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK) // no effect if the handler has set a status
	ended = true
}

// end stores how a request ended, and then sends the response. ended is false if the handler
// panicked; the key is freed then.
func (i *idempotency) end(ctx context.Context, c keyClaim, sensitive bool, a *withheld, ended bool) {
	ctx, cancel := lane.LastWritesWithin(ctx, keyEnd)
	defer cancel()
	var err error
	still := true
	if !ended || a.status >= http.StatusInternalServerError || a.Header().Get("Retry-After") != "" {
		err = i.keys.free(ctx, c)
	} else {
		var body []byte
		if !a.passed && (!sensitive || a.status >= http.StatusBadRequest || a.status == http.StatusNoContent) {
			body = append([]byte{}, a.body.Bytes()...)
		}
		status, header := a.status, a.stored()
		if execution := a.Header().Get(executionHeader); body == nil && execution != "" {
			status, header, body = followable(execution)
		}
		still, err = i.keys.keep(ctx, c, status, header, body)
	}
	switch {
	case err != nil:
		i.server.Log.WarnContext(ctx, "how a request with an idempotency key ended could not be written down", "route", c.route, "error", err)
	case !still:
		i.server.Log.WarnContext(ctx,
			"a request took longer than its idempotency key was claimed for, and was done by another too", "route", c.route)
	}
	if ended {
		_ = a.pass() // the client may have disconnected
	}
}

// followable returns the response that is stored in place of a stream. It names the execution whose
// events the client can follow.
func followable(execution string) (status int, header http.Header, body []byte) {
	p := doneBy(execution)
	body, _ = json.Marshal(p) // strings and numbers always encode
	return p.Status, http.Header{"Content-Type": {problem.MediaType}}, body
}

// doneBy is notKept for a request that was done by an execution.
func doneBy(execution string) *problem.Problem {
	p := *notKept
	p.ExecutionID = execution
	return &p
}

// doingBy is keyInUse for a request that an execution works on.
func doingBy(execution string) *problem.Problem {
	p := *keyInUse
	p.ExecutionID = execution
	return &p
}

// replay sends a stored response.
func replay(w http.ResponseWriter, k *keyRecord) {
	maps.Copy(w.Header(), k.header)
	w.Header().Set(replayedHeader, "true")
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body) // the client may have disconnected
}

// withheld buffers a response until it is complete. A response that is flushed, because it is a
// stream, or that exceeds maxKept is sent on from then on without buffering.
type withheld struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	passed bool
}

// WriteHeader implements [http.ResponseWriter].
func (a *withheld) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *withheld) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.passed && a.body.Len()+len(p) <= maxKept {
		return a.body.Write(p)
	}
	if err := a.pass(); err != nil {
		return 0, err
	}
	return a.ResponseWriter.Write(p)
}

// FlushError implements flushing for [http.ResponseController].
func (a *withheld) FlushError() error {
	a.WriteHeader(http.StatusOK)
	if err := a.pass(); err != nil {
		return err
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] reach the underlying writer.
func (a *withheld) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// pass sends the buffered part of the response to the client.
func (a *withheld) pass() error {
	if a.passed {
		return nil
	}
	a.passed = true
	a.ResponseWriter.WriteHeader(a.status)
	_, err := a.ResponseWriter.Write(a.body.Bytes())
	return err
}

// stored returns the headers to store.
func (a *withheld) stored() http.Header {
	h := http.Header{}
	for _, name := range keptHeaders {
		if values := a.Header().Values(name); len(values) > 0 {
			h[name] = values
		}
	}
	return h
}
