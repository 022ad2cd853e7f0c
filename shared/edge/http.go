package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// reserve is how long before Lambda ends an invocation the context of its request
// ends, so that there is time to answer; a tenth of what there is where that is less.
const reserve = 2 * time.Second

// StartHTTP serves HTTP requests with the handler that build makes of the core. What
// a REST API and a function URL send is answered as a stream, what an HTTP API sends
// in one piece. A handler that is a [Tender] also takes {"source": "lanekeeper.tend"},
// which a schedule sends. It is called by the functions that have an address.
func (s *Sandbox) StartHTTP(build func(*app.Core) (http.Handler, error)) error {
	return s.start(lambda.NewHandler(s.web(build)))
}

// web is a handler of the Lambda library, which sends what the reply has to read
// while it comes, and closes the reply before it asks for the next invocation.
func (s *Sandbox) web(build func(*app.Core) (http.Handler, error)) func(context.Context, json.RawMessage) (io.Reader, error) {
	open := newOpener(s, build)
	return func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		if isTend(payload) {
			return s.tend(ctx, open)
		}
		c, err := decodeCall(payload)
		if err != nil {
			s.log.ErrorContext(ctx, "invocation failed", "error", err)
			return nil, *failureOf(ctx, err)
		}
		ctx, cancel := reserved(ctx)
		s.background.enter(ctx)
		asked, leave := context.WithCancel(ctx)
		c.request = c.request.WithContext(asked)
		out := new(reply)
		out.end = func() {
			leave()
			out.answering.Wait()
			s.background.working.Wait()
			cancel()
		}
		if c.streams {
			s.stream(open, c, out)
		} else {
			s.whole(open, c, out)
		}
		return out, nil
	}
}

func reserved(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(reserve, time.Until(end)/10)))
}

// reply is what goes to the Lambda library. It has no exported field: the library
// would send those as JSON.
type reply struct {
	body      io.ReadCloser
	kind      string
	answering sync.WaitGroup // the handler, where it may outlast the body
	end       func()         // awaits it, and what goes on behind the answer
}

func (r *reply) Read(p []byte) (int, error) { return r.body.Read(p) }
func (r *reply) ContentType() string        { return r.kind }

// Close is called when the whole body was read, or nobody reads it any more.
func (r *reply) Close() error {
	err := r.body.Close()
	r.end()
	return err
}

// stream answers while the handler runs: what it writes is on its way when Write
// returns. A caller that leaves ends the request's context and fails the writes.
func (s *Sandbox) stream(open *opener[http.Handler], c *call, out *reply) {
	r, w := io.Pipe()
	way := &streaming{PipeWriter: w, reader: r}
	a := newAnswer(c, way, func(h head) error { return h.prelude(way) })
	out.body, out.kind = r, streamType
	out.answering.Go(func() {
		_ = w.CloseWithError(s.answer(open, a, c.request)) // never fails
	})
}

// whole answers in one piece when the handler has returned. What Lambda would not
// take, and what was cut off, is a 500 instead.
func (s *Sandbox) whole(open *opener[http.Handler], c *call, out *reply) {
	p := new(piece)
	a := newAnswer(c, p, p.begin)
	cut := s.answer(open, a, c.request)
	raw, err := p.encode()
	id := a.header.Get(traceHeader)
	switch {
	case cut != nil:
		raw = refused(c, id, internalProblem(c.request.Context()))
	case err != nil:
		s.log.ErrorContext(c.request.Context(), "the answer can't be sent in one piece", "error", err)
		raw = refused(c, id, problem.New(http.StatusInternalServerError, "answer_too_large", err.Error()))
	}
	out.body, out.kind = io.NopCloser(bytes.NewReader(raw)), "application/json"
}

// answer has the handler answer. A panic is logged and told as a 500, or, where the
// answer has begun, returned as the error that cuts it off.
func (s *Sandbox) answer(open *opener[http.Handler], a *answer, r *http.Request) (cut error) {
	defer func() {
		thrown := recover()
		if thrown == nil {
			a.WriteHeader(http.StatusOK) // unless there is one
			return
		}
		ctx := r.Context()
		if id, _, err := trace.Parse(a.header.Get(traceHeader)); err == nil {
			ctx = trace.With(ctx, id)
		}
		if thrown != any(http.ErrAbortHandler) { // whoever throws that has logged why
			s.log.ErrorContext(ctx, "request panicked", "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
		}
		if a.status == 0 {
			a.refuse(internalProblem(ctx))
			return
		}
		cut = failure{Type: "Panic", Message: internal(ctx)}
	}()
	now, err := open.current(r.Context(), nil)
	if err != nil {
		s.log.ErrorContext(r.Context(), "request can't be served", "error", err)
		a.refuse(problem.New(http.StatusServiceUnavailable, "unavailable", "this can't be served now: "+seeLog(r.Context())))
		return nil
	}
	now.with.ServeHTTP(a, r)
	if a.status == http.StatusServiceUnavailable {
		open.renew(r.Context())
	}
	return nil
}

// renew asks for the database's credentials again where the database refuses those
// of a secret: the next request is then served with the new ones.
func (o *opener[T]) renew(ctx context.Context) {
	if o.cfg.DatabaseSecretARN == "" {
		return
	}
	_, err := o.do(ctx, func(now *opened[T]) (any, error) { return nil, now.core.DB.Check(ctx) })
	if err != nil {
		o.log.WarnContext(ctx, "the database is away", "error", err)
	}
}
