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
	writeTime = 10 * time.Second // for a caller to take what is sent

	// ComeBack has a client come back after so many milliseconds; it begins a stream.
	ComeBack = "retry: 2000\n"
	// Still is a comment: it says that the answer goes on.
	Still = ": still here\n\n"
)

// Head writes the headers of a stream, and its status.
func Head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// Event adds one event to b. An id or a kind that is empty is left out.
func Event(b *bytes.Buffer, id, kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil { // it always encodes
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

// Send sends what is in b to the caller now, or fails where that takes too long.
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
	return nil
}

// Keep calls still again and again, until it is stopped; then it calls it no more.
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
