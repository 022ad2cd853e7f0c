package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

const (
	maxBody  = 256 << 10
	maxDepth = 32               // of nested lists and objects
	bodyTime = 10 * time.Second // for a body to arrive
	maxTaken = 32 << 20         // bytes of all bodies in this process
)

// read counts a message whose visitor the header names, then reads its body into to, and ignores fields
// that to does not have. Its bytes count as taken until free is called.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, v *visit, to any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, v, func(d *json.Decoder) error { return d.Decode(to) })
}

// readStrict is read, but refuses fields that to does not have.
func (h *Handler) readStrict(w http.ResponseWriter, r *http.Request, v *visit, to any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, v, func(d *json.Decoder) error {
		d.DisallowUnknownFields()
		return d.Decode(to)
	})
}

func (h *Handler) readBy(w http.ResponseWriter, r *http.Request, v *visit, decode func(*json.Decoder) error) (func(), *problem.Problem) {
	if p := h.early(r, v); p != nil {
		return nil, p
	}
	if p := intake.JSON(r.Header); p != nil {
		return nil, p
	}
	body, free, p := intake.Read(w, r, intake.Limits{
		Size: maxBody, Time: bodyTime, Room: &h.room, Total: maxTaken, From: ratelimit.NetworkOf(r.RemoteAddr),
	})
	if p != nil {
		return nil, p
	}
	if p := decoded(body, decode); p != nil {
		free()
		return nil, p
	}
	return free, nil
}

// decoded decodes a body, and says what is wrong with it.
func decoded(body []byte, decode func(*json.Decoder) error) *problem.Problem {
	if !json.Valid(body) || !shallow(string(body)) {
		return problem.New(http.StatusBadRequest, "malformed", fmt.Sprintf("the body is not valid JSON of at most %d levels", maxDepth))
	}
	err := decode(json.NewDecoder(bytes.NewReader(body)))
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return bad(strings.TrimSuffix("body."+wrong.Field, "."), "expected a value of type "+jsonType(wrong.Type.Kind().String()))
	}
	if err != nil {
		if name := unknownField(err); name != "" {
			return bad("body."+name, "unexpected property")
		}
		return bad("body", "is an object with the fields that this path knows")
	}
	return nil
}

var fieldName = pattern.New(`^[A-Za-z0-9_$-]{1,64}$`)

// unknownField returns the name of the field that a strict decoder does not know. It returns an empty
// text for a name that has not the form of a field's name, since that may be any text, and for other
// errors. The package json has no type for this error.
func unknownField(err error) string {
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	name, wrong := strconv.Unquote(quoted)
	if !ok || wrong != nil || !fieldName().MatchString(name) {
		return ""
	}
	return name
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
