// Package intake takes HTTP requests in. It reads bodies within limits of size, time and memory, and
// answers what exceeds them with a problem.
package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Limits bound the body of one request.
type Limits struct {
	Size int64         // bytes
	Time time.Duration // for the body to arrive; 0: [Expect] has set it
	// Room counts the bytes of all bodies in memory; nil: nothing counts them. Total is the most
	// that it may hold, and half of that the most from one network, From.
	Room  *Room
	Total int
	From  netip.Prefix
}

// Expect sets the deadline for receiving a request's body. The deadline stays until [Read] has read
// the whole body, because net/http reads the rest of a body before it sends a refusal.
func Expect(w http.ResponseWriter, r *http.Request, in time.Duration) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(in)) // fails only without a connection
	}
}

// Read returns the whole body. The caller calls free once it no longer needs the body; free is nil
// only where there is a problem.
func Read(w http.ResponseWriter, r *http.Request, l Limits) (body []byte, free func(), p *problem.Problem) {
	if r.Body == nil {
		return nil, func() {}, nil
	}
	tooLarge := problem.New(http.StatusRequestEntityTooLarge, "too_large", "a body has "+size(l.Size)+" at most")
	if r.ContentLength > l.Size {
		return nil, nil, tooLarge
	}
	if l.Time > 0 {
		Expect(w, r, l.Time)
	}
	from := http.MaxBytesReader(w, r.Body, l.Size)
	free = func() {}
	var read io.Reader = from
	if l.Room != nil {
		counted := &counter{body: from, room: l.Room, total: l.Total, from: l.From}
		read, free = counted, counted.free
	}
	body, err := all(read, r.ContentLength)
	if err != nil {
		free()
	}
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, nil, tooLarge
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		w.Header().Set("Connection", "close") // the rest of the body is not waited for
		return nil, nil, problem.New(http.StatusRequestTimeout, "timeout", "the body did not arrive in time")
	}
	if errors.Is(err, errFull) {
		w.Header().Set("Connection", "close")
		return nil, nil, problem.New(http.StatusServiceUnavailable, "busy",
			"too many bodies are being received: send it again").Later(time.Second)
	}
	if err != nil {
		return nil, nil, problem.New(http.StatusBadRequest, "malformed", "the body can't be read")
	}
	// A deadline that is not removed would cancel the request's context when it passes.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, free, nil
}

// all reads everything. Its buffer doubles up to the announced length: a length that is only
// announced takes no memory, and one that is kept leaves no larger copy.
func all(body io.Reader, length int64) ([]byte, error) {
	b := make([]byte, 0, min(max(length, bytes.MinRead), 64<<10)+1) // one more, to meet the end
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		case len(b) == cap(b):
			more := 2 * cap(b)
			if exact := int(length) + 1; len(b) < exact {
				more = min(more, exact)
			}
			b = append(make([]byte, 0, more), b...)
		}
	}
}

// size names a number of bytes.
func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// WithoutSlash removes the slash at the end of a path below a prefix: clients that join a path of parts send
// one.
func WithoutSlash(r *http.Request, prefix string) *http.Request {
	if at := r.URL.EscapedPath(); !strings.HasPrefix(at, prefix) || !strings.HasSuffix(at, "/") {
		return r
	}
	to := *r.URL
	to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/"), strings.TrimSuffix(to.RawPath, "/")
	r = r.WithContext(r.Context())
	r.URL = &to
	return r
}

// JSON returns a problem unless the headers of a body declare JSON that is not encoded, or declare
// nothing.
func JSON(h http.Header) *problem.Problem {
	encoding, declared := h.Get("Content-Encoding"), h.Get("Content-Type")
	media, params, err := mime.ParseMediaType(declared)
	charset := params["charset"]
	plain := encoding == "" || strings.EqualFold(encoding, "identity")
	if plain && (declared == "" || err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))) {
		return nil
	}
	return problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "a body is JSON in UTF-8, not compressed: send the header Content-Type: application/json")
}
