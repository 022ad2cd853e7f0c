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

// reserve is the time between the end of a request's context and the invocation's time limit. It leaves
// time to respond. A short invocation reserves a tenth of its time instead.
const reserve = 2 * time.Second

// StartHTTP serves HTTP requests with the handler that build makes from the core. Responses to a REST
// API and a function URL stream; responses to an HTTP API are sent whole. A handler that is a [Tender]
// also receives {"source": "lanekeeper.tend"} from a schedule. StartHTTP is called by the functions
// that have an address.
func (s *Sandbox) StartHTTP(build func(*app.Core) (http.Handler, error)) error {
	return s.start(lambda.NewHandler(s.web(build)))
}

// web returns a handler for the Lambda library. The library sends the reply's bytes as they arrive, and
// closes the reply before it asks for the next invocation.
func (s *Sandbox) web(build func(*app.Core) (http.Handler, error)) func(context.Context, json.RawMessage) (io.Reader, error) {
	return s.requests(newOpener(s, build))
}

func (s *Sandbox) requests(open *opener[http.Handler]) func(context.Context, json.RawMessage) (io.Reader, error) {
	return func(ctx context.Context, payload json.RawMessage) (io.Reader, error) {
		if isTend(payload) {
			return s.tend(ctx, open)
		}
		c, err := decodeCall(payload)
		if err != nil {
			s.log.ErrorContext(ctx, "invocation failed", "error", err)
			return nil, *failureOf(ctx, err)
		}
		whole := s.invoked(ctx)
		ctx, cancel := reserved(whole)
		s.background.enter(ctx)
		asked, leave := context.WithCancel(s.spans.Received(ctx, c.request.Header))
		c.request = c.request.WithContext(asked)
		out := new(reply)
		out.end = func() {
			leave()
			out.answering.Wait()
			s.background.working.Wait()
			s.measured(whole)
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

// reply is the handler's result for the Lambda library. It has no exported fields, because the library
// would send those as JSON.
type reply struct {
	body      io.ReadCloser
	kind      string
	answering sync.WaitGroup // the handler, which may run longer than the body is read
	end       func()         // waits for the handler and the background work
}

func (r *reply) Read(p []byte) (int, error) { return r.body.Read(p) }
func (r *reply) ContentType() string        { return r.kind }

// Close is called when the body was read to its end, or when reading has stopped.
func (r *reply) Close() error {
	err := r.body.Close()
	r.end()
	return err
}

// stream sends the response while the handler runs: bytes are on their way when Write returns. A client
// that disconnects ends the request's context, and writes then fail.
func (s *Sandbox) stream(open *opener[http.Handler], c *call, out *reply) {
	r, w := io.Pipe()
	way := &streaming{PipeWriter: w, reader: r}
	a := newAnswer(c, way, func(h head) error { return h.prelude(way) })
	out.body, out.kind = r, streamType
	out.answering.Go(func() {
		_ = w.CloseWithError(s.answer(open, a, c.request)) // never fails
	})
}

// whole sends the response after the handler has returned. A response that is too large for Lambda, or
// that was cut off by a panic, becomes a 500.
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

// answer runs the handler. It logs a panic and responds with a 500. If the response has begun, it
// returns the error that cuts the response off instead.
func (s *Sandbox) answer(open *opener[http.Handler], a *answer, r *http.Request) (cut error) {
	defer func() {
		thrown := recover()
		if thrown == nil {
			a.WriteHeader(http.StatusOK) // unless a status was sent
			return
		}
		ctx := r.Context()
		if id, _, err := trace.Parse(a.header.Get(traceHeader)); err == nil {
			ctx = trace.With(ctx, id)
		}
		if thrown != any(http.ErrAbortHandler) { // its caller has logged the reason
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

// renew checks the database's credentials. If the database refuses those of a secret, it reads the
// secret again, and the next request uses the new ones.
func (o *opener[T]) renew(ctx context.Context) {
	if o.cfg.DatabaseSecretARN == "" {
		return
	}
	_, err := o.do(ctx, func(now *opened[T]) (any, error) { return nil, now.core.DB.Check(ctx) })
	if err != nil {
		o.log.WarnContext(ctx, "the database is away", "error", err)
	}
}
