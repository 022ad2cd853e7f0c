package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// link is one connection through the proxy.
type link struct {
	p *Proxy

	mu             sync.Mutex
	client, server net.Conn
	fault          Fault
	lost           bool // it has been silent: there is no way back
	over           bool
	answered       bool          // the server has spoken last
	ended          chan struct{} // closed when over
	deaf           chan struct{} // closed when nothing more comes from the server
}

// asks reports whether what the client says now begins a request: it speaks first, or
// behind an answer.
func (l *link) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins := l.answered
	l.answered = false
	return begins
}

// answer is the fault of an answer that has just come in.
func (l *link) answer() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	return l.fault
}

// silent reports whether neither side learns that the other has gone.
func (l *link) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (l *link) connected(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
	if l.over {
		_ = server.Close()
	}
	return !l.over
}

func (l *link) set(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost {
		return
	}
	l.fault = f
	l.lost = f.Kind == Swallow || f.Kind == SwallowAnswers
	if f.Kind == Cut {
		l.end(true)
	}
}

// now is the fault of the traffic that has just come in.
func (l *link) now() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// hangUp ends the connection; what has been written arrives.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(false)
}

// reset ends the connection at once, and tells both sides so.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(true)
}

func (l *link) end(reset bool) {
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			if reset {
				_ = tcp.SetLinger(0) // fails only for one that has ended
			} else {
				_ = tcp.CloseWrite() // Close alone waits for whoever reads: the other side hears of it later
			}
			_ = tcp.Close()
		}
	}
}

const (
	piece   = 32 << 10
	overlap = 1 << 10 // of two pieces, for a text that stands in both
)

func (l *link) requests() {
	buf := make([]byte, piece)
	var tail []byte
	for {
		n, err := l.client.Read(buf)
		if data := buf[:n]; n > 0 {
			if r := l.p.take(tail, data); r != nil {
				l.set(r.fault)
				close(r.hit)
			}
			if l.asks() {
				if f := l.p.asked(data); f != (Fault{}) {
					l.set(f)
				}
			}
			tail = append(tail, data...)
			tail = bytes.Clone(tail[max(0, len(tail)-overlap):])
			if f := l.now(); f.Kind != Swallow && f.Kind != Cut {
				l.forward(l.server, data, f)
			}
		}
		if err != nil {
			if l.silent() {
				select {
				case <-l.deaf:
				case <-l.ended:
				}
			}
			l.hangUp()
			return
		}
	}
}

func (l *link) answers() {
	defer close(l.deaf)
	buf := make([]byte, piece)
	for {
		n, err := l.server.Read(buf)
		f := l.now()
		if n > 0 {
			f = l.answer()
			switch f.Kind {
			case CutAnswer:
				l.reset()
			case HalfAnswer:
				l.forward(l.client, buf[:n/2], f)
				l.hangUp()
			case Pass, Delay:
				l.forward(l.client, buf[:n], f)
			}
		}
		if err != nil {
			if f.Kind != Swallow && f.Kind != SwallowAnswers {
				l.hangUp()
			}
			return
		}
	}
}

// forward writes data, late where the fault says so. Whoever can't be written to has
// gone, which reading from it tells as well.
func (l *link) forward(to net.Conn, data []byte, f Fault) {
	if f.Kind == Delay {
		late := time.NewTimer(f.By)
		defer late.Stop()
		select {
		case <-late.C:
		case <-l.ended:
		}
	}
	_, _ = to.Write(data)
}
