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
	lost           bool // it was silent and cannot recover
	over           bool
	answered       bool          // the last data came from the server
	ended          chan struct{} // closed when the link is over
	deaf           chan struct{} // closed when the server sends no more data
}

// asks reports whether the client's current data begins a request. It does if it is the first data
// of the connection, or if the server sent the previous data.
func (l *link) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	begins := l.answered
	l.answered = false
	return begins
}

// answer returns the fault for a response that has just arrived.
func (l *link) answer() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	return l.fault
}

// silent reports whether neither side may learn that the other has disconnected.
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

// now returns the fault for the data that has just arrived.
func (l *link) now() Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// hangUp closes the connection. Data that was written before still arrives.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(false)
}

// reset closes the connection with a reset, which both sides see at once.
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
				_ = tcp.SetLinger(0) // fails only for a closed connection
			} else {
				// Close alone waits for pending reads, so the other side would see the end later.
				_ = tcp.CloseWrite()
			}
			_ = tcp.Close()
		}
	}
}

const (
	piece   = 32 << 10
	overlap = 1 << 10 // of two pieces, to find a text that is split between them
)

func (l *link) requests() {
	buf := make([]byte, piece)
	var tail []byte
	var named statements
	for {
		n, err := l.client.Read(buf)
		if data := buf[:n]; n > 0 {
			said := named.spell(data)
			if r := l.p.take(tail, said); r != nil {
				l.set(r.fault)
				close(r.hit)
			}
			if l.asks() {
				if f := l.p.asked(said); f != (Fault{}) {
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

// forward writes data, with the delay that the fault requires. It ignores write errors: reading
// from the same peer reports that it has disconnected.
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
