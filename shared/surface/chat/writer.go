package chat

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// writer writes a stream in a voice. A caller who has left is told nothing more.
type writer struct {
	w  http.ResponseWriter
	as voice

	mu          sync.Mutex // guards what follows
	b           bytes.Buffer
	begun, gone bool
}

// begin begins the answer, so that the caller can come back to it.
func (s *writer) begin(execution, thread string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	s.w.Header().Set(executionHeader, execution)
	if thread != "" {
		s.w.Header().Set(threadHeader, thread)
	}
	sse.Head(s.w)
	s.as.begin(&s.b, execution, thread)
	s.send()
}

func (s *writer) event(e turn.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as.event(&s.b, e)
	s.send()
}

// still says that the answer goes on, once it has begun.
func (s *writer) still() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		s.b.WriteString(sse.Still)
		s.send()
	}
}

func (s *writer) end(r turn.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as.end(&s.b, r)
	s.send()
}

func (s *writer) send() {
	if s.gone {
		s.b.Reset()
	}
	if s.b.Len() > 0 {
		s.gone = sse.Send(s.w, &s.b) != nil
	}
}
