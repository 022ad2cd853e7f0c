package outbound_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestTraceGoesAlong(t *testing.T) {
	const id = "hb_0mh8c1v2q_a7x2p1k9d4"
	h := newHops(t, once("a.test", 302, "http://b.test/"))
	c := h.client(t)
	for _, d := range []doer{c, c.HTTPClient()} {
		h.seen = nil
		req, _ := http.NewRequestWithContext(trace.With(t.Context(), id), http.MethodGet, "http://a.test/", nil)
		req.Header.Set("X-Trace-Id", "made-up")
		if _, _, err := send(d, req); err != nil || len(h.seen) != 2 {
			t.Fatalf("%v after %d requests", err, len(h.seen))
		}
		for _, hop := range h.seen {
			if got := hop.header.Values(outbound.TraceHeader); len(got) != 1 || got[0] != id {
				t.Errorf("%s: traces %q", hop.host, got)
			}
		}
		if got := req.Header.Get("X-Trace-Id"); got != "made-up" {
			t.Errorf("the caller's request has now %q", got)
		}
	}
	h.seen = nil
	if _, _, err := get(t, c, "http://b.test/"); err != nil || h.seen[0].header.Get("X-Trace-Id") != "" {
		t.Errorf("%v; without a trace: %v", err, h.seen)
	}
}

func TestRequestsThatAreNotSent(t *testing.T) {
	h := newHops(t, once("", 0, ""))
	c := h.client(t)
	for rule, change := range map[outbound.Rule]func(*http.Request){
		outbound.RuleMethod: func(r *http.Request) { r.Method = "CONNECT" },
		outbound.RuleHost:   func(r *http.Request) { r.Host = "internal.test" },
		outbound.RuleURL:    func(r *http.Request) { r.URL = nil },
	} {
		req := request(t, http.MethodGet, "http://a.test/", "")
		change(req)
		_, _, err := send(c, req)
		mustRefuse(t, err, rule)
	}
	if len(h.seen) > 0 {
		t.Errorf("%d were sent", len(h.seen))
	}
	bare := (&http.Request{URL: request(t, "", "http://a.test/", "").URL}).WithContext(t.Context())
	if _, _, err := send(c, bare); err != nil || len(h.seen) != 1 || h.seen[0].method != http.MethodGet {
		t.Errorf("the bare request: %v, %v", err, h.seen)
	}
}

// TestErrorsRepeatNothingThatAServerSends: a server can send back the secrets that it got, so no
// error repeats them.
func TestErrorsRepeatNothingThatAServerSends(t *testing.T) {
	for _, answer := range []string{
		"hunter2\r\n\r\n", "HTTP/1.1 hunter2\r\n\r\n", "HTTP/hunter2 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2", "HTTP/1.1 302 Found\r\nLocation: http://%zzhunter2/\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nhunter2\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhunter2", "",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := slow(t, func(w *bufio.Writer) { _, _ = w.WriteString(answer); _ = w.Flush() })
			_, _, err := get(t, c, "http://"+public4+"/?key=hunter2")
			if err == nil || err.Error() == "" || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 500 {
				t.Errorf("%q: %v", answer, err)
			}
			if errors.Unwrap(err) == nil {
				t.Errorf("%q: %v wraps nothing", answer, err)
			}
		})
	}
}

// TestCancelled: the end of the caller's context can be recognized in the error.
func TestCancelled(t *testing.T) {
	n := newNetwork(t, redirector)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, n.server.URL, nil)
	if _, _, err := send(n.client(t), req); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	n.names = func(string) []string { return []string{"10.0.0.1", public4} }
	c := n.client(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			path := fmt.Sprintf("/%d", i)
			if _, body, err := get(t, c, "http://name.test"+path); err != nil || body != path {
				t.Errorf("%s: %q, %v", path, body, err)
			}
		})
	}
	all.Wait()
	if _, astray := n.seen(); len(astray) > 0 {
		t.Errorf("dialled %v", astray)
	}
}
