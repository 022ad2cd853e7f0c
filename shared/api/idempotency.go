package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	// keyHeader names a request, so that it can be sent again without being done
	// again.
	keyHeader = "Idempotency-Key"
	// maxKept is the largest answer that is kept.
	maxKept = 256 << 10
	// keyTime is how long a request may take before another may take its key over,
	// unless the route takes longer.
	keyTime = time.Minute
	// keyEnd is how long the store may take to hear how a request ended.
	keyEnd = 5 * time.Second
)

var (
	keyReused = problem.New(http.StatusUnprocessableEntity, "key_reused", "the Idempotency-Key was used for another request")
	keyInUse  = problem.New(http.StatusConflict, "in_progress", "the request with this Idempotency-Key is still being worked on").Later(2 * time.Second)
	notKept   = problem.New(http.StatusConflict, "answer_not_kept",
		"the request with this Idempotency-Key was done, and is not done again; its answer was not kept: it was shown once, streamed or too large")
	badKey = invalid(problem.At("header."+keyHeader, "expected one of 1 to 255 visible ASCII characters"))
)

// executionHeader names the execution of a streamed answer.
const executionHeader = "X-Execution-Id"

// keptHeaders are those of an answer that are answered again.
var keptHeaders = []string{"Content-Type", "Etag", "Location"}

// idempotency has requests with an Idempotency-Key done once: whoever sends one
// again, within a day, gets the first answer.
//
// What failed here (5xx) and what came too soon (an answer with Retry-After) frees the
// key. A request whose process died is done again by whoever sends it after its claim
// has ended: what it had committed by then is committed. So is one whose end could not
// be written down.
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

// keyed says how a route's requests are done once.
type keyed struct {
	route string // its operation id
	// sensitive: the answer shows what is shown once, and is not kept unless it is a
	// refusal.
	sensitive bool
	// within is the most that a request takes; zero is a minute.
	within time.Duration
}

// once puts the key before a route's handler. It stands behind the token and the
// limits of the body, which is read into memory.
func (i *idempotency) once(rt keyed, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := r.Header.Values(keyHeader)
		if len(keys) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if len(keys) > 1 || !visible(keys[0]) {
			i.server.refuse(w, r, badKey)
			return
		}
		c, err := i.claimOf(rt, keys[0], r)
		if err != nil {
			i.server.fail(w, r, err)
			return
		}
		mine, found, err := i.keys.claim(r.Context(), c, max(keyTime, rt.within))
		switch {
		case err != nil:
			i.server.fail(w, r, err)
		case mine:
			i.work(c, rt.sensitive, w, r, next)
		case found == nil: // given back just now
			i.server.refuse(w, r, keyInUse)
		case found.request != c.request:
			i.server.refuse(w, r, keyReused)
		case !found.done:
			i.server.refuse(w, r, keyInUse)
		case found.body == nil:
			i.server.refuse(w, r, notKept)
		default:
			replay(w, found)
		}
	})
}

// visible reports whether s is a key.
func visible(s string) bool {
	return len(s) >= 1 && len(s) <= 255 && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// claimOf is what a request would claim. Its body can be read again afterwards.
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

// digest is the SHA-256 of texts, each with its end.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		part := sha256.Sum256([]byte(t))
		h.Write(part[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// work has the request done, writes down how it ended, and then answers: who has
// seen the answer gets it again.
func (i *idempotency) work(c keyClaim, sensitive bool, w http.ResponseWriter, r *http.Request, next http.Handler) {
	a := &withheld{ResponseWriter: w}
	ended := false
	defer func() { i.end(r.Context(), c, sensitive, a, ended) }()
	next.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK) // unless it has said another
	ended = true
}

// end writes down how a request ended. One that panicked has not.
func (i *idempotency) end(ctx context.Context, c keyClaim, sensitive bool, a *withheld, ended bool) {
	ctx, cancel := lane.LastWritesWithin(ctx, keyEnd)
	defer cancel()
	var err error
	still := true
	if !ended || a.status >= http.StatusInternalServerError || a.Header().Get("Retry-After") != "" {
		err = i.keys.free(ctx, c)
	} else {
		var body []byte
		if !a.passed && (!sensitive || a.status >= http.StatusBadRequest) {
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
		i.server.Log.WarnContext(ctx, "a request took longer than its idempotency key was claimed for, and was done by another too", "route", c.route)
	}
	if ended {
		_ = a.pass() // the caller may have left
	}
}

// followable is kept in the place of a streamed answer: it names the execution to follow.
func followable(execution string) (status int, header http.Header, body []byte) {
	p := *notKept
	p.ExecutionID = execution
	body, _ = json.Marshal(&p) // texts and numbers always encode
	return p.Status, http.Header{"Content-Type": {problem.MediaType}}, body
}

// replay answers what was answered first.
func replay(w http.ResponseWriter, k *keyRecord) {
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body) // the caller may have left
}

// withheld is an answer that is held back until it is all there. One that is
// flushed, since it is a stream, or too large to keep is passed on as it comes.
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

// FlushError is for [http.ResponseController].
func (a *withheld) FlushError() error {
	a.WriteHeader(http.StatusOK)
	if err := a.pass(); err != nil {
		return err
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (a *withheld) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// pass gives the caller what was held back.
func (a *withheld) pass() error {
	if a.passed {
		return nil
	}
	a.passed = true
	a.ResponseWriter.WriteHeader(a.status)
	_, err := a.ResponseWriter.Write(a.body.Bytes())
	return err
}

// stored are the headers to keep.
func (a *withheld) stored() http.Header {
	h := http.Header{}
	for _, name := range keptHeaders {
		if values := a.Header().Values(name); len(values) > 0 {
			h[name] = values
		}
	}
	return h
}
