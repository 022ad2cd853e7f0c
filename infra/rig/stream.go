package rig

import (
	"io"
	"sync"
)

// stream stores everything that is written to it, for any number of readers. Each reader starts at
// the beginning and blocks at the end until more is written.
type stream struct {
	mu    sync.Mutex
	data  []byte
	ended bool
	grown chan struct{} // closed and replaced on every change
}

func newStream() *stream { return &stream{grown: make(chan struct{})} }

// Write appends p; it never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = append(s.data, p...)
	s.wake()
	return len(p), nil
}

// end tells the readers that no more data will come.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wake()
}

func (s *stream) wake() {
	close(s.grown)
	s.grown = make(chan struct{})
}

// bytes returns the data so far.
func (s *stream) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data[:len(s.data):len(s.data)]
}

func (s *stream) reader() io.Reader { return &streamReader{s: s} }

type streamReader struct {
	s   *stream
	pos int
}

// Read blocks until there is data, or until the end.
func (r *streamReader) Read(p []byte) (int, error) {
	for {
		r.s.mu.Lock()
		n := copy(p, r.s.data[r.pos:])
		ended, grown := r.s.ended, r.s.grown
		r.s.mu.Unlock()
		if n > 0 || len(p) == 0 {
			r.pos += n
			return n, nil
		}
		if ended {
			return 0, io.EOF
		}
		<-grown
	}
}
