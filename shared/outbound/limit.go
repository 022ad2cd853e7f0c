package outbound

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

type timeoutKey struct{}

// WithTimeout returns a context whose requests may take d in total, and d for their headers,
// whatever the client's own limits are. A context that ends earlier still ends them.
func WithTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

// A clock ends a request that takes too long.
type clock struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	header time.Duration

	total   *time.Timer
	headers *time.Timer // nil until a request is sent
}

func (c *Client) start(ctx context.Context) *clock {
	total, header := c.timeout, min(c.timeout, c.headerTimeout)
	if d, ok := ctx.Value(timeoutKey{}).(time.Duration); ok {
		total, header = d, d
	}
	k := &clock{header: header}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	k.total = time.AfterFunc(total, func() { k.cancel(&TimeoutError{What: "response", After: total}) })
	return k
}

func (k *clock) awaitHeaders() {
	k.headers = time.AfterFunc(k.header, func() { k.cancel(&TimeoutError{What: "response headers", After: k.header}) })
}

func (k *clock) headersCame() { k.headers.Stop() }

// stop ends the request if it is still running. It may be called more than once.
func (k *clock) stop() {
	k.total.Stop()
	k.cancel(nil)
}

// why returns the timeout that has ended the request, or err when none has.
func (k *clock) why(err error) error {
	if late, ok := errors.AsType[*TimeoutError](context.Cause(k.ctx)); ok {
		return late
	}
	return err
}

// bound makes the body of a response end at the size limit and with the clock.
func (c *Client) bound(clock *clock, resp *http.Response) (*http.Response, error) {
	tooLarge := &SizeError{What: "response body", Limit: c.maxResponse}
	if resp.Body == http.NoBody {
		clock.stop()
		return resp, nil
	}
	if resp.ContentLength > c.maxResponse {
		_ = resp.Body.Close()
		return nil, tooLarge
	}
	resp.Body = &responseBody{limited: limited{body: resp.Body, left: c.maxResponse, tooLarge: tooLarge}, clock: clock}
	return resp, nil
}

// boundRequest makes sending the body fail at the size limit.
func (c *Client) boundRequest(req *http.Request) error {
	tooLarge := &SizeError{What: "request body", Limit: c.maxRequest}
	if req.ContentLength > c.maxRequest {
		return tooLarge
	}
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	bounded := func(body io.ReadCloser) io.ReadCloser {
		return &limited{body: body, left: c.maxRequest, tooLarge: tooLarge}
	}
	req.Body = bounded(req.Body)
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return bounded(body), nil
		}
	}
	return nil
}

// limited is a body that fails when it has returned the allowed number of bytes and there are more.
type limited struct {
	body     io.ReadCloser
	left     int64 // bytes left; -1: there were more
	tooLarge *SizeError
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, l.tooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one byte more distinguishes the end from the limit
	}
	n, err := l.body.Read(p)
	if int64(n) > l.left {
		n, err, l.left = int(l.left), l.tooLarge, -1
		return n, err
	}
	l.left -= int64(n)
	return n, err
}

func (l *limited) Close() error { return l.body.Close() }

// responseBody ends with the clock, and stops the clock when it ends.
type responseBody struct {
	limited
	clock *clock
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.limited.Read(p)
	if err == nil || err == io.EOF { //nolint:errorlint // the end is io.EOF itself
		if err != nil {
			b.clock.stop()
		}
		return n, err
	}
	err = &exchangeError{err: b.clock.why(err)}
	b.clock.stop()
	return n, err
}

func (b *responseBody) Close() error {
	b.clock.stop()
	return b.limited.Close()
}
