package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that returns each line it receives. It also sends the line to the channel.
func echo(t *testing.T) (url string, lines chan string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	lines = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					lines <- in.Text()
					_, _ = c.Write(append(in.Bytes(), '\n'))
				}
			}()
		}
	}()
	return "tcp://" + l.Addr().String(), lines
}

type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *proxy.Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{t, c, bufio.NewReader(c)}
}

// says sends a line and returns the response that arrives within the limit.
func (c client) says(line string, limit time.Duration) (string, error) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	return c.in.ReadString('\n')
}

func (c client) hears(line string) {
	c.t.Helper()
	if got, err := c.says(line, time.Minute); got != line+"\n" || err != nil {
		c.t.Errorf("%q was answered by %q, %v", line, got, err)
	}
}

const soon = 50 * time.Millisecond

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   proxy.Fault
		got     string // what the client reads
		silent  bool   // the client reads until its limit; otherwise the connection ends
		arrives bool   // the server receives the request
	}{
		{"cut", proxy.Fault{Kind: proxy.Cut}, "", false, false},
		{"swallow", proxy.Fault{Kind: proxy.Swallow}, "", true, false},
		{"swallow answers", proxy.Fault{Kind: proxy.SwallowAnswers}, "", true, true},
		{"cut the answer", proxy.Fault{Kind: proxy.CutAnswer}, "", false, true},
		{"half an answer", proxy.Fault{Kind: proxy.HalfAnswer}, "the ", false, true},
	} {
		for _, how := range []string{"from now on", "at a text"} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				url, lines := echo(t)
				p, err := proxy.Start(url)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				victim, other := dial(t, p), dial(t, p)
				victim.hears("hello")
				other.hears("the other")
				<-lines
				<-lines
				if how == "at a text" {
					hit := p.At("e poi", c.fault)
					other.hears("not it")
					<-lines
					defer func() { <-hit }()
				} else {
					p.Set(c.fault)
				}
				got, err := victim.says("the poi", soon)
				if got != c.got || err == nil || errors.Is(err, os.ErrDeadlineExceeded) != c.silent {
					t.Errorf("the client reads %q, %v", got, err)
				}
				if c.arrives {
					if line := <-lines; line != "the poi" {
						t.Errorf("the server got %q", line)
					}
				} else if len(lines) > 0 {
					t.Errorf("the server got %q", <-lines)
				}
				if how == "at a text" {
					other.hears("the point") // the rule is used up
				} else {
					p.Set(proxy.Fault{})
					if got, err := victim.says("again", soon); err == nil {
						t.Errorf("a connection that has lost something goes on: %q", got)
					}
				}
				dial(t, p).hears("a new one")
			})
		}
	}
}

func TestDelay(t *testing.T) {
	url, _ := echo(t)
	p, err := proxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := dial(t, p)
	p.Set(proxy.Fault{Kind: proxy.Delay, By: soon})
	start := time.Now()
	c.hears("late")
	if took := time.Since(start); took < 2*soon {
		t.Errorf("there and back took %s", took)
	}
	p.Set(proxy.Fault{})
	c.hears("healed")
	p.Set(proxy.Fault{Kind: proxy.Delay, By: time.Hour})
	if got, err := c.says("never", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v", got, err)
	}
}

// The function of OnRequest is called once per request, however the request is split into pieces.
func TestEachRequestIsDecidedOn(t *testing.T) {
	url, lines := echo(t)
	p, err := proxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var asked []string
	p.OnRequest(func(data []byte) proxy.Fault {
		asked = append(asked, string(data))
		if len(asked) == 3 {
			return proxy.Fault{Kind: proxy.CutAnswer}
		}
		return proxy.Fault{}
	})
	c := dial(t, p)
	c.hears("one")
	c.hears("two")
	if got, err := c.says("three", time.Minute); err == nil {
		t.Errorf("the third is answered by %q", got)
	}
	for _, want := range []string{"one", "two", "three"} {
		if got := <-lines; got != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
	}
	if strings.Join(asked, "") != "one\ntwo\nthree\n" {
		t.Errorf("it was asked about %q", asked)
	}
	p.OnRequest(nil)
	dial(t, p).hears("a new one")
}

// A server does not learn that a client has disconnected if the connection is silent.
func TestASilentClientIsNotSeenToLeave(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := proxy.Start("tcp://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := dial(t, p)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.Set(proxy.Fault{Kind: proxy.Swallow})
	_ = c.Close()
	if err := server.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it reads %d bytes, %v", n, err)
	}
}

// TestAPreparedStatementIsFoundByItsName: a request that names a prepared statement counts as one that
// contains its text.
func TestAPreparedStatementIsFoundByItsName(t *testing.T) {
	url, lines := echo(t)
	p, err := proxy.Start(url)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := dial(t, p)
	c.hears("P\x00PREPARE st1 AS SELECT the point\x00")
	c.hears("P\x00PREPARE st12 AS SELECT another\x00")
	<-lines
	<-lines
	hit := p.At("the point", proxy.Fault{Kind: proxy.CutAnswer})
	c.hears("B\x00st12\x00")
	<-lines
	if got, err := c.says("B\x00st1\x00", soon); err == nil {
		t.Errorf("the client reads %q", got)
	}
	<-hit
}
