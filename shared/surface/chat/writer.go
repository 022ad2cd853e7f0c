package chat

import (
	"bytes"

	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// writer writes a stream in a voice. A caller who has left is told nothing more.
type writer struct {
	sse.Stream
	as voice
}

// begin begins the answer, so that the caller can come back to it.
func (s *writer) begin(execution, thread string) {
	s.W.Header().Set(executionHeader, execution)
	if thread != "" {
		s.W.Header().Set(threadHeader, thread)
	}
	s.Begin(func(b *bytes.Buffer) { s.as.begin(b, execution, thread) })
}

func (s *writer) event(e turn.Event) { s.Tell(func(b *bytes.Buffer) { s.as.event(b, e) }) }

func (s *writer) end(r turn.Reply) { s.Tell(func(b *bytes.Buffer) { s.as.end(b, r) }) }
