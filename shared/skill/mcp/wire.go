package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

// farewell limits two requests at the end of a call: the notification that the call is cancelled,
// and the one that closes the session. Each may take this long.
const farewell = 500 * time.Millisecond

// maxStream is the limit of bytes read of one answer: the longest result plus what the protocol
// adds around it.
const maxStream = remote.MaxAnswer + 64<<10

var errTooLong = errors.New("the answer is too long")

// wire carries the HTTP requests of one call. It adds the headers, limits what is read, ends
// requests that outlive the call, and records what happened to each message.
type wire struct {
	by      *http.Client
	headers http.Header
	over    context.Context
	end     context.CancelFunc

	mu     sync.Mutex
	sights map[string]sight // by method of the message

	cancelled chan struct{} // closed after the cancellation was sent to the server
	told      sync.Once
}

// sight records what happened to one message.
type sight struct {
	err     error // of the transport
	status  int   // of the answer; 0: none came
	header  http.Header
	tooLong bool
	left    func() bool // nil: the message was never tried
}

// mayHaveLeft reports whether the message may have reached the server.
func (s sight) mayHaveLeft() bool { return s.left != nil && s.left() }

// isRefused reports whether the answer's status is not 2xx.
func (s sight) isRefused() bool { return s.status != 0 && s.status/100 != 2 }

func newWire(by *http.Client, headers http.Header) *wire {
	over, end := context.WithCancel(context.Background())
	return &wire{by: by, headers: headers, over: over, end: end, sights: map[string]sight{}, cancelled: make(chan struct{})}
}

// client returns the guarded client with this wire as its transport.
func (w *wire) client() *http.Client {
	c := *w.by
	c.Transport = w
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// close cancels all requests that are still running.
func (w *wire) close() { w.end() }

// awaitCancelled waits until the server has been notified of the cancellation, at most [farewell].
// The SDK sends that notification in another goroutine.
func (w *wire) awaitCancelled() {
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-w.cancelled:
	case <-timer.C:
	}
}

// of returns the sight of the last of these methods that has one.
func (w *wire) of(methods ...string) (last sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range methods {
		if s, ok := w.sights[m]; ok {
			last = s
		}
	}
	return last
}

func (w *wire) see(method string, look func(*sight)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sights[method]
	look(&s)
	w.sights[method] = s
}

// methodOf returns the method of the message in a request's body, or "" if there is none.
func methodOf(r *http.Request) string {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var message struct {
		Method string `json:"method"`
	}
	_ = json.NewDecoder(body).Decode(&message) // what the SDK writes can be decoded
	return message.Method
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	method := methodOf(r)
	if method == "notifications/cancelled" {
		defer w.told.Do(func() { close(w.cancelled) })
	}
	ctx, done := w.within(r, method)
	ctx, left := skill.Watch(ctx)
	w.see(method, func(s *sight) { *s = sight{left: left} })
	resp, err := w.send(r.Clone(ctx))
	if err != nil {
		done()
		w.see(method, func(s *sight) { s.err = err })
		return nil, err
	}
	w.see(method, func(s *sight) { s.status, s.header = resp.StatusCode, resp.Header })
	resp.Body = &bounded{ReadCloser: resp.Body, left: maxStream, done: done,
		over: func() { w.see(method, func(s *sight) { s.tooLong = true }) }}
	return resp, nil
}

// within returns the request's context. It also ends when the wire is closed.
func (w *wire) within(r *http.Request, method string) (ctx context.Context, done func()) {
	var cancel context.CancelFunc
	if r.Method == http.MethodDelete || method == "notifications/cancelled" {
		ctx, cancel = context.WithTimeout(r.Context(), farewell)
	} else {
		ctx, cancel = context.WithCancel(r.Context())
	}
	stop := context.AfterFunc(w.over, cancel)
	return ctx, func() { stop(); cancel() }
}

func (w *wire) send(r *http.Request) (*http.Response, error) {
	for name, values := range w.headers {
		r.Header[name] = values
	}
	if w.by.Transport == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return w.by.Transport.RoundTrip(r)
}

// bounded is a body that stops with [errTooLong] after left bytes.
type bounded struct {
	io.ReadCloser
	left int
	over func() // called when the body is longer
	done func()
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.over()
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *bounded) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
