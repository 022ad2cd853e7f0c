package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	writeTime = 10 * time.Second // time limit for a client to receive a write

	// ComeBack begins a stream. It tells the client to reconnect after 2,000 milliseconds.
	ComeBack = "retry: 2000\n"
	// Still is a comment that keeps an idle stream alive.
	Still = ": still here\n\n"
)

// Head writes the status and the headers of a stream.
func Head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// Event appends one event to b. It omits an empty id or kind.
func Event(b *bytes.Buffer, id, kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil { // the callers' data always encodes
		return
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	if kind != "" {
		b.WriteString("event: " + kind + "\n")
	}
	b.WriteString("data: ")
	b.Write(text)
	b.WriteString("\n\n")
}

// Send sends the contents of b at once and resets b. It fails if the client does not receive them
// within writeTime.
func Send(w http.ResponseWriter, b *bytes.Buffer) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	b.Reset()
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	// The end of the response may come long after the last event. It must not find the limit passed.
	if err := control.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Stream tells a client what happens. Once the client has left it is told nothing more.
type Stream struct {
	W     http.ResponseWriter
	Begun bool // the head was sent; not to be read while others tell

	mu   sync.Mutex // guards what follows, and Begun
	b    bytes.Buffer
	gone bool
}

// Begin sends the head, and what add appends.
func (s *Stream) Begin(add func(b *bytes.Buffer)) {
	s.Tell(func(b *bytes.Buffer) {
		s.Begun = true
		Head(s.W)
		add(b)
	})
}

// Tell sends what add appends.
func (s *Stream) Tell(add func(b *bytes.Buffer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.b)
	if s.gone {
		s.b.Reset()
	}
	if s.b.Len() > 0 {
		s.gone = Send(s.W, &s.b) != nil
	}
}

// Still tells a client that a stream which has begun goes on.
func (s *Stream) Still() {
	s.Tell(func(b *bytes.Buffer) {
		if s.Begun {
			b.WriteString(Still)
		}
	})
}

// Keep calls still at each interval until stop is called. When stop has returned, still is not
// running and is not called again.
func Keep(every time.Duration, still func()) (stop func()) {
	ended := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() {
		quiet := time.NewTicker(every)
		defer quiet.Stop()
		for {
			select {
			case <-quiet.C:
				still()
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		keeping.Wait()
	}
}
