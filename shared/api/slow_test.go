package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// pipes is a listener with in-memory connections, so that virtual time applies to them.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// serves serves a handler over pipes inside a synctest bubble. It returns functions that connect
// and that stop the server.
func serves(h http.Handler) (dial func() net.Conn, stop func()) {
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	dial = func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		return ours
	}
	return dial, func() { _ = srv.Close() }
}

// If a body does not arrive, the connection ends, on each route and for each caller.
func TestASlowBodyEndsItsConnection(t *testing.T) {
	w := onOne(t)
	type ask struct {
		method, path, token, length string
		status                      int
	}
	var asks []ask
	for _, route := range api.Routes() {
		if route.Method == http.MethodGet && !strings.HasSuffix(route.ID, "-events") && !strings.HasPrefix(route.ID, "follow-") {
			continue
		}
		for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			asks = append(asks, ask{route.Method, right[route.ID].path, owner, length, http.StatusRequestTimeout})
			if route.Least != "" {
				asks = append(asks, ask{route.Method, right[route.ID].path, "", length, http.StatusUnauthorized})
			}
		}
	}
	asks = append(asks, ask{http.MethodPost, "/nope", "", "Content-Length: 1000", http.StatusNotFound})
	for _, c := range asks {
		name := fmt.Sprintf("%s %s as %q, %s", c.method, c.path, c.token, c.length)
		synctest.Test(t, func(t *testing.T) {
			dial, stop := serves(w.Handler)
			defer stop()
			conn := dial()
			defer conn.Close()
			begun := time.Now()
			if err := conn.SetDeadline(begun.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n", c.method, c.path, c.length)
			if c.token != "" {
				head += "Authorization: Bearer " + c.token + "\r\n"
			}
			if _, err := io.WriteString(conn, head+"\r\n1"); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if lived := time.Since(begun); err != nil || lived > 15*time.Second {
				t.Errorf("%s: the connection lived for %s: %v", name, lived, err)
			}
			if want := fmt.Sprintf("HTTP/1.1 %d ", c.status); !strings.HasPrefix(string(answer), want) ||
				!strings.Contains(string(answer), "\r\nConnection: close\r\n") {
				t.Errorf("%s: it answered %.200q", name, answer)
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	if len(asks) < 100 {
		t.Errorf("only %d requests", len(asks))
	}
}

// A request whose body has arrived completely has the time limit of its route, and its connection
// stays open.
func TestABodyThatCameLeavesNoDeadline(t *testing.T) {
	ended := errors.New("no beat ran")
	w := onOne(t, func(d *api.Deps) {
		d.Beat = func(ctx context.Context, tick heartbeat.Tick) (heartbeat.Report, error) {
			time.Sleep(5 * time.Minute) // virtual time
			ended = ctx.Err()
			return heartbeat.Report{Outcome: heartbeat.Completed, TraceID: string(tick.Trace), Phases: []heartbeat.Phase{}}, nil
		}
	})
	synctest.Test(t, func(t *testing.T) {
		dial, stop := serves(w.Handler)
		defer stop()
		conn := dial()
		defer conn.Close()
		const body = `{"wait":true}`
		answers := bufio.NewReader(conn)
		for range 2 {
			head := fmt.Sprintf("POST /api/v1/heartbeat/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", owner, len(body))
			if _, err := io.WriteString(conn, head+body); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(answers, nil)
			if err != nil || r.StatusCode != http.StatusOK || ended != nil {
				t.Fatal(r, err, ended)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatal(err)
			}
		}
	})
}
