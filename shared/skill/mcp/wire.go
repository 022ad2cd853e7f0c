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

// farewell is how long it may take to tell a server that a call is given up, and
// again that its session is over.
const farewell = 500 * time.Millisecond

// maxStream is the most that is read of one answer: the longest there may be, and
// what the protocol puts around it.
const maxStream = remote.MaxAnswer + 64<<10

var errTooLong = errors.New("the answer is too long")

// wire carries the requests of one call. It adds the headers, bounds what is read,
// ends what still goes on behind the call, and remembers what became of the messages
// that matter.
type wire struct {
	by      *http.Client
	headers http.Header
	over    context.Context
	end     context.CancelFunc

	mu     sync.Mutex
	sights map[string]sight // by the message's method

	cancelled chan struct{} // closed when the server has been told that the call is given up
	told      sync.Once
}

// sight is what was seen of a message.
type sight struct {
	err     error // of the transport
	status  int   // of the answer; 0: none came
	header  http.Header
	tooLong bool
	left    func() bool // nil: it was not even tried
}

// mayHaveLeft reports whether the message may have reached the server.
func (s sight) mayHaveLeft() bool { return s.left != nil && s.left() }

// isRefused reports whether the answer's status is not good.
func (s sight) isRefused() bool { return s.status != 0 && s.status/100 != 2 }

func newWire(by *http.Client, headers http.Header) *wire {
	over, end := context.WithCancel(context.Background())
	return &wire{by: by, headers: headers, over: over, end: end, sights: map[string]sight{}, cancelled: make(chan struct{})}
}

// client is the guarded client through this wire.
func (w *wire) client() *http.Client {
	c := *w.by
	c.Transport = w
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// close ends whatever still goes on.
func (w *wire) close() { w.end() }

// awaitCancelled waits until the server has been told that the call is given up, which
// the SDK does beside its caller.
func (w *wire) awaitCancelled() {
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-w.cancelled:
	case <-timer.C:
	}
}

// of is what was seen of the last message with one of the methods.
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

// methodOf is the method of the message that a request carries; empty: none.
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
	_ = json.NewDecoder(body).Decode(&message) // what the SDK writes can be read
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
	resp.Body = &bounded{ReadCloser: resp.Body, left: maxStream, done: done, over: func() { w.see(method, func(s *sight) { s.tooLong = true }) }}
	return resp, nil
}

// within is a request's context, which ends with the call too.
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

// bounded is a body of which not more than so much is read.
type bounded struct {
	io.ReadCloser
	left int
	over func() // more would come
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
