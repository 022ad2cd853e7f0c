// Package proxy is a TCP proxy between a client and its server that fails as networks
// do: it delays, cuts, swallows, and loses answers.
//
// [Proxy.Set] says what becomes of all connections from now on; [Proxy.At] says what
// becomes of the one connection on which a client sends a text, such as a statement or
// the path of a request, and of that request. [Proxy.OnRequest] has a function say it of
// each request. It reads no protocol, so that texts are found only where the traffic is
// not encrypted; a request is what a client says first, or behind an answer.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Kind is what the network does to a connection.
type Kind int

// The kinds.
const (
	Pass           Kind = iota
	Delay               // each piece of traffic is late by Fault.By, both ways
	Cut                 // reset: what was sent last is lost
	Swallow             // silent: nothing gets through any more, and nobody is told, not even that the other has gone
	SwallowAnswers      // as Swallow, but requests get through
	CutAnswer           // requests get through; the next answer is lost, and the connection is reset
	HalfAnswer          // as CutAnswer, and half of the answer gets through
)

// A Fault is a kind, and how long a delay is.
type Fault struct {
	Kind Kind
	By   time.Duration
}

// A Proxy stands in front of one server.
type Proxy struct {
	// URL is the server's URL through the proxy.
	URL string

	target   string
	listener net.Listener
	pumps    sync.WaitGroup
	done     chan struct{}

	mu      sync.Mutex
	fault   Fault
	rules   []*rule
	request func([]byte) Fault
	links   map[*link]struct{}
}

// rule is a fault that waits for a text.
type rule struct {
	text  []byte
	fault Fault
	hit   chan struct{}
}

// Start stands a proxy in front of the server at rawURL, whose host must name a port.
func Start(rawURL string) (*Proxy, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Port() == "" {
		return nil, errors.New("proxy: the URL of a server with its port is wanted")
	}
	var loopback net.ListenConfig
	l, err := loopback.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: u.Host, listener: l, done: make(chan struct{}), links: map[*link]struct{}{}}
	u.Host = l.Addr().String()
	p.URL = u.String()
	p.pumps.Go(p.accept)
	return p, nil
}

// Set makes f the fault of all connections, open and new. A connection that was
// silent or cut stays so: only new ones heal.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.links {
		l.set(f)
	}
}

// HangUp ends all connections that are open, as a peer does that has nothing more to say.
func (p *Proxy) HangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.hangUp()
	}
}

// At makes f the fault of the first connection whose client sends text, from the request
// with the text on. The channel is closed once that has happened. The text must not be
// longer than 1 KiB; it is used once.
func (p *Proxy) At(text string, f Fault) <-chan struct{} {
	r := &rule{text: []byte(text), fault: f, hit: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r.hit
}

// OnRequest has decide say what becomes of each request from now on, and of its
// connection: the zero Fault leaves both as they are. It gets the first piece of the
// request, may be called for several connections at once, and is nil where nobody decides.
func (p *Proxy) OnRequest(decide func([]byte) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = decide
}

// asked is what is decided of a request.
func (p *Proxy) asked(data []byte) Fault {
	p.mu.Lock()
	decide := p.request
	p.mu.Unlock()
	if decide == nil {
		return Fault{}
	}
	return decide(data)
}

// Close ends all connections and waits for their goroutines.
func (p *Proxy) Close() {
	close(p.done)
	_ = p.listener.Close() // fails only when it is closed already
	p.mu.Lock()
	for l := range p.links {
		l.reset()
	}
	p.mu.Unlock()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	l := &link{p: p, client: client, answered: true, ended: make(chan struct{}), deaf: make(chan struct{})}
	defer l.hangUp()
	if !p.join(l) {
		return
	}
	defer p.leave(l)
	dialer := net.Dialer{Timeout: 5 * time.Second}
	server, err := dialer.DialContext(context.Background(), "tcp", p.target)
	if err != nil || !l.connected(server) {
		return
	}
	p.pumps.Go(l.answers)
	l.requests()
}

func (p *Proxy) join(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return false
	default:
	}
	p.links[l] = struct{}{}
	l.set(p.fault)
	return true
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// take finds the rule whose text ends in data, which came behind tail, and uses it up.
func (p *Proxy) take(tail, data []byte) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.rules {
		before := tail[max(0, len(tail)-len(r.text)+1):]
		if bytes.Contains(slices.Concat(before, data), r.text) {
			p.rules = slices.Delete(p.rules, i, i+1)
			return r
		}
	}
	return nil
}
