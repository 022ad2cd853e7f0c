package outbound_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

func mustBeTooLarge(t *testing.T, err error, what string, limit int64) {
	t.Helper()
	if large, ok := errors.AsType[*outbound.SizeError](err); !ok || large.What != what || large.Limit != limit {
		t.Errorf("got %v, want that the %s is larger than %d", err, what, limit)
	}
}

func TestResponseIsBounded(t *testing.T) {
	const limit = 1000
	for _, declared := range []bool{true, false} {
		for size, fits := range map[int]bool{0: true, 1: true, limit - 1: true, limit: true, limit + 1: false, 100 * limit: false} {
			n := newNetwork(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest) // an error response has a body too
				if !declared {
					_ = http.NewResponseController(w).Flush()
				}
				_, _ = w.Write(bytes.Repeat([]byte("a"), size))
			})
			c := n.client(t, func(o *outbound.Options) { o.MaxResponse = limit })
			for _, d := range []doer{c, c.HTTPClient()} {
				status, body, err := get(t, d, n.server.URL)
				switch {
				case fits && (err != nil || status != http.StatusBadRequest || len(body) != size):
					t.Errorf("%d bytes (declared: %t): got %d of them, status %d, %v", size, declared, len(body), status, err)
				case !fits:
					mustBeTooLarge(t, err, "response body", limit)
					if len(body) > limit {
						t.Errorf("%d bytes were handed out", len(body))
					}
				}
			}
		}
	}
}

// TestResponseThatDeclaresTooMuch: a body that is declared too large is not read at all.
func TestResponseThatDeclaresTooMuch(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 101)) })
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, n.server.URL, nil)
	resp, err := n.client(t, func(o *outbound.Options) { o.MaxResponse = 100 }).Do(req)
	if resp != nil {
		_ = resp.Body.Close()
	}
	mustBeTooLarge(t, err, "response body", 100)
}

// TestResponseIsBoundedForSmallReads: small reads reach the limit too, and it stays reached.
func TestResponseIsBoundedForSmallReads(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(bytes.Repeat([]byte("a"), 101))
	})
	c := n.client(t, func(o *outbound.Options) { o.MaxResponse = 100 })
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, n.server.URL, nil)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(iotest.OneByteReader(resp.Body))
	if len(body) != 100 {
		t.Errorf("%d bytes", len(body))
	}
	mustBeTooLarge(t, err, "response body", 100)
	count, err := resp.Body.Read(make([]byte, 10))
	if count > 0 {
		t.Errorf("%d bytes more", count)
	}
	mustBeTooLarge(t, err, "response body", 100)
}

func TestHeadMayDeclareALargeBody(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999999") })
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodHead, n.server.URL, nil)
	if status, body, err := send(n.client(t), req); err != nil || status != 200 || body != "" {
		t.Errorf("%d %q, %v", status, body, err)
	}
}

// TestBombDoesNotGoOff: a compressed body stays compressed, whether it was requested or not.
func TestBombDoesNotGoOff(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" && got != "gzip" {
			t.Errorf("asked for %q", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	c := n.client(t, func(o *outbound.Options) { o.MaxResponse = int64(bomb.Len()) })
	for _, asked := range []string{"", "gzip"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, n.server.URL, nil)
		if asked != "" {
			req.Header.Set("Accept-Encoding", asked)
		}
		if _, body, err := send(c, req); err != nil || body != bomb.String() {
			t.Errorf("asked for %q: %d bytes, want the %d of the bomb itself; %v", asked, len(body), bomb.Len(), err)
		}
	}
	tight := n.client(t, func(o *outbound.Options) { o.MaxResponse = int64(bomb.Len()) - 1 })
	_, _, err := get(t, tight, n.server.URL)
	mustBeTooLarge(t, err, "response body", int64(bomb.Len())-1)
}

func TestRequestIsBounded(t *testing.T) {
	const limit = 1000
	n := newNetwork(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	c := n.client(t, func(o *outbound.Options) { o.MaxRequest = limit })
	for size, fits := range map[int]bool{0: true, limit: true, limit + 1: false, 100 * limit: false} {
		for _, declared := range []bool{true, false} {
			var body io.Reader = strings.NewReader(strings.Repeat("a", size))
			if !declared {
				body = io.MultiReader(body)
			}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, n.server.URL, body)
			_, _, err := send(c, req)
			if fits && err != nil {
				t.Errorf("%d bytes (declared: %t): %v", size, declared, err)
			}
			if !fits {
				mustBeTooLarge(t, err, "request body", limit)
			}
		}
	}
}

// TestRequestIsBoundedAfterARedirect: a body that is sent again is limited again.
func TestRequestIsBoundedAfterARedirect(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		}
	})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, n.server.URL, io.MultiReader(strings.NewReader("a")))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(strings.Repeat("a", 101))), nil }
	_, _, err := send(n.client(t, func(o *outbound.Options) { o.MaxRequest = 100 }), req)
	mustBeTooLarge(t, err, "request body", 100)
}

// closing records that it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestBodyOfARefusedRequestIsClosed(t *testing.T) {
	c := newClient(t)
	body := &closing{Reader: strings.NewReader("a")}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.0.0.1/", body)
	_, _, err := send(c, req)
	mustRefuse(t, err, outbound.RuleAddress)
	if !body.closed {
		t.Error("it is open")
	}
}

func TestResponseHeadersAreBounded(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 200 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 1000))
		}
	})
	if status, _, err := get(t, n.client(t), n.server.URL); err == nil {
		t.Errorf("200 kB of headers were taken, status %d", status)
	}
}

// slow returns a client in virtual time. serve is its server.
func slow(t *testing.T, serve func(w *bufio.Writer), change ...func(*outbound.Options)) *outbound.Client {
	var servers sync.WaitGroup
	t.Cleanup(servers.Wait)
	return newClient(t, append([]func(*outbound.Options){func(o *outbound.Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			servers.Go(func() {
				defer theirs.Close()
				if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
					serve(bufio.NewWriterSize(theirs, 16))
				}
			})
			return ours, nil
		}
	}}, change...)...)
}

// trickle writes a byte a second until nobody reads.
func trickle(w *bufio.Writer, text string) {
	for i := 0; ; i++ {
		if err := w.WriteByte(text[i%len(text)]); err != nil {
			return
		}
		if err := w.Flush(); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"

func TestTooSlow(t *testing.T) {
	trickledBody := func(w *bufio.Writer) { _, _ = w.WriteString(okay); trickle(w, "a") }
	trickledHeaders := func(w *bufio.Writer) { _, _ = w.WriteString("HTTP/1.1 200 OK\r\n"); trickle(w, "X-A: a\r\n") }
	silent := func(*bufio.Writer) { time.Sleep(time.Hour) }
	const key = "http://" + public4 + "/?key=hunter2"
	for _, test := range []struct {
		name  string
		serve func(*bufio.Writer)
		ctx   func(context.Context) context.Context
		what  string
		after time.Duration
	}{
		{"body", trickledBody, nil, "response", 30 * time.Second},
		{"headers", trickledHeaders, nil, "response headers", 15 * time.Second},
		{"nothing", silent, nil, "response headers", 15 * time.Second},
		{"longer on demand", trickledBody, func(ctx context.Context) context.Context {
			return outbound.WithTimeout(ctx, 5*time.Minute)
		}, "response", 5 * time.Minute},
		{"longer for headers too", trickledHeaders, func(ctx context.Context) context.Context {
			return outbound.WithTimeout(ctx, 5*time.Minute)
		}, "response", 5 * time.Minute},
		{"shorter on demand", trickledBody, func(ctx context.Context) context.Context {
			return outbound.WithTimeout(ctx, 5*time.Second)
		}, "response", 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := slow(t, test.serve)
				ctx := t.Context()
				if test.ctx != nil {
					ctx = test.ctx(ctx)
				}
				start := time.Now()
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, key, nil)
				_, _, err := send(c, req)
				late, ok := errors.AsType[*outbound.TimeoutError](err)
				if !ok || late.What != test.what && test.name != "longer for headers too" || late.After != test.after || time.Since(start) != test.after {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
					t.Errorf("%v is no time-out of net", err)
				}
				if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v", err)
				}
				c.CloseIdleConnections()
			})
		})
	}
}

// TestTimeIsSharedByRedirects: the timeout covers all redirects together.
func TestTimeIsSharedByRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := slow(t, func(w *bufio.Writer) {
			time.Sleep(10 * time.Second)
			_, _ = w.WriteString("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = w.Flush()
		})
		start := time.Now()
		_, _, err := get(t, c, "http://"+public4+"/")
		if _, ok := errors.AsType[*outbound.TimeoutError](err); !ok || time.Since(start) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestContextEndsARequest(t *testing.T) {
	for _, serve := range []func(*bufio.Writer){
		func(w *bufio.Writer) { _, _ = w.WriteString(okay); trickle(w, "a") },
		func(*bufio.Writer) { time.Sleep(time.Hour) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			req, _ := http.NewRequestWithContext(outbound.WithTimeout(ctx, time.Hour), http.MethodGet, "http://"+public4+"/", nil)
			_, _, err := send(slow(t, serve), req)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		})
	}
}

// TestNothingIsLeftOfARequest: a response that is closed unread, or read to its end, leaves no
// timer that could end another request.
func TestNothingIsLeftOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := slow(t, func(w *bufio.Writer) {
			_, _ = w.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			_ = w.Flush()
		})
		for _, read := range []bool{true, false} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+public4+"/", nil)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if read {
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
			}
			_ = resp.Body.Close()
			c.CloseIdleConnections()
			synctest.Wait()
			if err := context.Cause(resp.Request.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("read: %t: the request has ended by %v", read, err)
			}
		}
	})
}

// TestConnectingIsBounded: a host that does not answer is given up, and the next address gets its
// share of the time.
func TestConnectingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{names: func(string) []string { return []string{"1.1.1.1", "1.0.0.1"} }}
		start := time.Now()
		var tried []string
		c := newClient(t, func(o *outbound.Options) {
			o.Resolver = n
			o.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
				tried = append(tried, fmt.Sprint(address, " after ", time.Since(start)))
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
			}
		})
		_, _, err := get(t, c, "http://name.test/")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if want := []string{"1.1.1.1:80 after 0s", "1.0.0.1:80 after 5s"}; !slices.Equal(tried, want) {
			t.Errorf("tried %q, want %q", tried, want)
		}
	})
}
