package postgres_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// fate is what a proxy does with a request and its answer.
type fate int

const (
	deliver    fate = iota
	lose            // the request is lost, and the connection with it
	loseAnswer      // the server has run it; the answer and the connection are lost
)

// proxy is between a handle and its server. It counts the requests (everything sent before an
// answer is awaited) and decides what happens to each.
type proxy struct {
	url string

	mu       sync.Mutex
	requests int
	next     fate
}

// newProxy starts a proxy for the server at dsn.
func newProxy(t *testing.T, dsn string) *proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	var target string
	p.url = with(t, dsn, func(u *url.URL) { target, u.Host = u.Host, l.Addr().String() })
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				if err := p.serve(client, target); err != nil && !gone(err) {
					t.Errorf("proxy: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return p
}

func gone(err error) bool {
	_, netErr := errors.AsType[net.Error](err)
	return netErr || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// then sets what happens to the next request.
func (p *proxy) then(f fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = f
}

// count returns the number of requests so far.
func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *proxy) request() (f fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	f, p.next = p.next, deliver
	return f
}

func (p *proxy) serve(client net.Conn, target string) error {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	defer server.Close()
	back, front := pgproto3.NewBackend(client, client), pgproto3.NewFrontend(server, server)
	hello, err := back.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	request, err := hello.Encode(nil)
	if err != nil {
		return err
	}
	for f := deliver; ; f = p.request() {
		if f == lose {
			return nil
		}
		if _, err := server.Write(request); err != nil {
			return err
		}
		answer, err := receive(front.Receive, func(m pgproto3.BackendMessage) bool {
			_, ready := m.(*pgproto3.ReadyForQuery)
			return ready
		})
		if err == nil && f == loseAnswer {
			return nil
		}
		if _, werr := client.Write(answer); err != nil || werr != nil {
			return errors.Join(err, werr)
		}
		request, err = receive(back.Receive, func(m pgproto3.FrontendMessage) bool {
			switch m.(type) {
			case *pgproto3.Sync, *pgproto3.Query:
				return true
			}
			return false
		})
		if err != nil {
			return err
		}
	}
}

// receive reads messages up to the last one and returns their bytes, also those read before an
// error.
func receive[M interface {
	Encode([]byte) ([]byte, error)
}](next func() (M, error), last func(M) bool) (bytes []byte, err error) {
	for {
		m, err := next()
		if err != nil {
			return bytes, err
		}
		if bytes, err = m.Encode(bytes); err != nil {
			return bytes, err
		}
		if last(m) {
			return bytes, nil
		}
	}
}
