package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

const (
	maxBody  = 256 << 10
	maxDepth = 32               // of nested lists and objects
	bodyTime = 10 * time.Second // for a body to arrive
)

var (
	tooLarge = problem.New(http.StatusRequestEntityTooLarge, "too_large", "a body has 256 KiB at most")
	noRoom   = problem.New(http.StatusServiceUnavailable, "busy", "too many messages are taken at once: send it again").Later(time.Second)
)

// read reads the body of a request into v, and ignores fields that v does not have. Its bytes count
// as taken until free is called.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, v any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, func(d *json.Decoder) error { return d.Decode(v) })
}

// readStrict is read, but refuses fields that v does not have.
func (h *Handler) readStrict(w http.ResponseWriter, r *http.Request, v any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, func(d *json.Decoder) error {
		d.DisallowUnknownFields()
		return d.Decode(v)
	})
}

func (h *Handler) readBy(w http.ResponseWriter, r *http.Request, decode func(*json.Decoder) error) (free func(), p *problem.Problem) {
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	if !isJSON(r.Header) {
		return nil, problem.New(http.StatusUnsupportedMediaType, "unsupported_media_type", "a body is application/json in UTF-8, not encoded")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // where there is a connection
	room := &room{body: http.MaxBytesReader(w, r.Body, maxBody), taken: &h.taken, from: ratelimit.NetworkOf(r.RemoteAddr)}
	defer func() {
		if p != nil {
			room.free()
		}
	}()
	body, err := io.ReadAll(room)
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		w.Header().Set("Connection", "close") // the rest of the body is not waited for
		return nil, problem.New(http.StatusRequestTimeout, "timeout", "the body did not arrive in time")
	}
	switch {
	case errors.Is(err, errNoRoom):
		return nil, noRoom
	case err != nil:
		return nil, problem.New(http.StatusBadRequest, "malformed", "the body can't be read")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end the request's context when it passes
	if !json.Valid(body) || !shallow(string(body)) {
		return nil, problem.New(http.StatusBadRequest, "malformed", fmt.Sprintf("the body is not valid JSON of at most %d levels", maxDepth))
	}
	err = decode(json.NewDecoder(bytes.NewReader(body)))
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, bad(strings.TrimSuffix("body."+wrong.Field, "."), "expected a value of type "+jsonType(wrong.Type.Kind().String()))
	}
	if err != nil { // the names of unknown fields are the caller's: they are not repeated
		return nil, bad("body", "is an object with the fields that this path knows")
	}
	return room.free, nil
}

// jsonType is what JSON calls a type of Go.
func jsonType(kind string) string {
	switch kind {
	case "slice", "array":
		return "array"
	case "struct", "map", "ptr":
		return "object"
	case "bool":
		return "boolean"
	case "string":
		return "string"
	}
	return "number"
}

// shallow reports whether a valid JSON text is nested no deeper than may be.
func shallow(text string) bool {
	for s := jsonscan.New(text); ; {
		if _, on := s.Next(); !on {
			return true
		}
		if s.Depth() > maxDepth {
			return false
		}
	}
}

// isJSON reports whether a body says that it is JSON, or says nothing.
func isJSON(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false
	}
	if h.Get("Content-Type") == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := params["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}
