// Package proxy is a TCP proxy between a client and its server that simulates network failures: it
// delays, cuts and swallows traffic, and loses responses.
//
// [Proxy.Set] sets the fault of all connections. [Proxy.At] sets the fault of one connection and
// one request: those on which a client sends a given text, such as a statement or the path of a
// request. [Proxy.OnRequest] calls a function that chooses the fault of each request. The proxy
// parses no protocol, so it finds texts only in unencrypted traffic. It takes the name of a statement that
// was prepared by PREPARE for the statement's text. It counts as a request the first data from the
// client, and the first data after a response.
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
	Delay               // each piece of traffic is delayed by Fault.By, in both directions
	Cut                 // reset: data in transit is lost
	Swallow             // nothing gets through any more, and neither side learns that the other has disconnected
	SwallowAnswers      // like Swallow, but requests get through
	CutAnswer           // requests get through; the next response is lost and the connection is reset
	HalfAnswer          // like CutAnswer, but half of the response gets through
)

// A Fault is a kind and, for Delay, the length of the delay.
type Fault struct {
	Kind Kind
	By   time.Duration
}

// A Proxy forwards connections to one server.
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

// rule is a fault that applies when a client sends the text.
type rule struct {
	text  []byte
	fault Fault
	hit   chan struct{}
}

// Start starts a proxy for the server at rawURL, whose host must include a port.
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

// Set makes f the fault of all open and new connections. A connection that was silent or cut stays
// so; only new connections recover.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.links {
		l.set(f)
	}
}

// HangUp closes all open connections, like a peer that has no more data to send.
func (p *Proxy) HangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.hangUp()
	}
}

// At makes f the fault of the first connection whose client sends text, from the request that
// contains it. The channel is closed when that has happened. The text may have up to 1 KiB and is
// used once.
func (p *Proxy) At(text string, f Fault) <-chan struct{} {
	r := &rule{text: []byte(text), fault: f, hit: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r.hit
}

// OnRequest sets the function that chooses the fault of each following request and of its
// connection. The zero Fault changes neither. decide receives the first piece of the request, and
// may be called concurrently for several connections. A nil decide removes the function.
func (p *Proxy) OnRequest(decide func([]byte) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = decide
}

// asked returns the fault that the function of OnRequest chooses for a request.
func (p *Proxy) asked(data []byte) Fault {
	p.mu.Lock()
	decide := p.request
	p.mu.Unlock()
	if decide == nil {
		return Fault{}
	}
	return decide(data)
}

// Close closes all connections and waits for their goroutines.
func (p *Proxy) Close() {
	close(p.done)
	_ = p.listener.Close() // fails only if it is closed already
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

// take removes and returns the first rule whose text ends in data. The text may begin in tail,
// which came before data.
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
