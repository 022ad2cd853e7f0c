package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An Event is one server-sent event.
type Event struct {
	Type string // empty: the stream names no type
	Data []byte // never empty; valid until the next event is read
}

// ErrTooLong is the error of an event, or a line, beyond the limit.
var ErrTooLong = errors.New("an event is too long")

// Reader reads the events of a stream as the HTML standard defines them. One difference: the last
// event does not need a blank line after it. A Reader is not safe for concurrent use.
type Reader struct {
	// OnComment is called for each comment, by which a server keeps a stream alive. It may be nil.
	OnComment func()

	in      *bufio.Reader
	max     int    // bytes of an event
	line    []byte // the last line that was read
	data    []byte
	begun   bool // the stream's first line has been read
	afterCR bool // the last line ended with CR: skip a line feed that follows
}

// NewReader returns a reader of events of at most max bytes.
func NewReader(in io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReader(in), max: max}
}

// Next returns the next event that has data. It returns io.EOF at the end of the stream,
// [ErrTooLong] for an event beyond the limit, and otherwise the stream's error.
func (r *Reader) Next() (Event, error) {
	r.data = r.data[:0]
	kind, some := "", false
	for {
		switch err := r.readLine(); {
		case errors.Is(err, io.EOF) && len(r.data) > 0:
			return Event{kind, r.data}, nil
		case err != nil:
			return Event{}, err
		}
		if !r.begun {
			r.line, r.begun = bytes.TrimPrefix(r.line, []byte("\uFEFF")), true
		}
		if len(r.line) == 0 {
			if len(r.data) > 0 {
				return Event{kind, r.data}, nil
			}
			kind, some = "", false
			continue
		}
		field, value, _ := bytes.Cut(r.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) { // other fields are ignored
		case "": // a comment
			if r.OnComment != nil {
				r.OnComment()
			}
		case "event":
			kind = string(value)
		case "data":
			if some {
				r.data = append(r.data, '\n')
			}
			r.data, some = append(r.data, value...), true
			if len(r.data) > r.max {
				return Event{}, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.max)
			}
		}
	}
}

// readLine reads one line without its end. A line ends with a carriage return, a line feed, both,
// or the end of the stream. readLine never waits for more than the line.
func (r *Reader) readLine() error {
	r.line = r.line[:0]
	for {
		if _, err := r.in.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && len(r.line) > 0 {
				return nil
			}
			return err
		}
		some, _ := r.in.Peek(r.in.Buffered())
		if r.afterCR {
			r.afterCR = false
			if some[0] == '\n' {
				_, _ = r.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(some, "\r\n")
		if end >= 0 {
			r.afterCR = some[end] == '\r'
			some = some[:end]
		}
		r.line = append(r.line, some...)
		_, _ = r.in.Discard(len(some) + min(end+1, 1)) // and the line's end, if it has arrived
		switch {
		case len(r.line) > r.max:
			return fmt.Errorf("%w: a line of over %d bytes", ErrTooLong, r.max)
		case end >= 0:
			return nil
		}
	}
}
