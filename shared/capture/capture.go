// Package capture remembers what a handler answers.
package capture

import (
	"bytes"
	"net/http"
)

// Recorder passes a response on and remembers its status.
type Recorder struct {
	http.ResponseWriter
	Status int // 0: it has not begun
}

// WriteHeader implements [http.ResponseWriter].
func (r *Recorder) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *Recorder) Write(p []byte) (int, error) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] reach the underlying writer.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Buffer keeps a response in memory. The zero value is empty.
type Buffer struct {
	Status int // 0: it has not begun
	Body   bytes.Buffer
	header http.Header
}

// BufferWith returns a buffer with these headers.
func BufferWith(h http.Header) *Buffer { return &Buffer{header: h} }

// Header implements [http.ResponseWriter].
func (b *Buffer) Header() http.Header {
	if b.header == nil {
		b.header = http.Header{}
	}
	return b.header
}

// WriteHeader implements [http.ResponseWriter].
func (b *Buffer) WriteHeader(status int) {
	if b.Status == 0 {
		b.Status = status
	}
}

// Write implements [http.ResponseWriter].
func (b *Buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.Body.Write(p)
}
