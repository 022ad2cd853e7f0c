package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/intake"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

const (
	maxBody   = 256 << 10
	maxWhole  = 4 << 20          // of a request that may bring a whole conversation; Lambda takes less than 6 MB
	maxDepth  = 32               // of nested lists and objects
	maxValues = 50_000           // brackets, names and values: each takes more memory than its bytes
	bodyTime  = 10 * time.Second // for a body to arrive
	maxTaken  = 32 << 20         // bytes of all bodies in this process
)

// read counts a message whose visitor the header names, then reads its body into to, and ignores fields
// that to does not have. Its bytes count as taken until free is called.
func (h *Handler) read(w http.ResponseWriter, r *http.Request, v *visit, to any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, v, maxWhole, func(body []byte) *problem.Problem { return decoded(body, to) })
}

// readStrict is read, but refuses members that the struct behind to does not name, in this spelling, and members that
// occur twice.
func (h *Handler) readStrict(w http.ResponseWriter, r *http.Request, v *visit, to any) (free func(), p *problem.Problem) {
	return h.readBy(w, r, v, maxBody, func(body []byte) *problem.Problem {
		if p := checkMembers(string(body), to); p != nil {
			return p
		}
		return decoded(body, to)
	})
}

// checkMembers refuses members of an object that the struct behind v does not name, and members that occur twice.
func checkMembers(body string, v any) *problem.Problem {
	open := map[string]bool{} // the names that may still come
	for f := range reflect.TypeOf(v).Elem().Fields() {
		open[f.Tag.Get("json")] = true
	}
	for s := jsonscan.New(body); ; {
		t, on := s.Next()
		if !on {
			return nil
		}
		if !t.Name || s.Depth() != 1 {
			continue
		}
		name, at := s.Decoded(t), "body"
		if fieldName().MatchString(name) { // another may be any text
			at += "." + name
		}
		switch may, known := open[name]; {
		case !known:
			return bad(at, "unexpected property")
		case !may:
			return bad(at, "given more than once")
		}
		open[name] = false
	}
}

func (h *Handler) readBy(w http.ResponseWriter, r *http.Request, v *visit, most int64,
	decode func([]byte) *problem.Problem) (func(), *problem.Problem) {
	if p := h.early(r, v); p != nil {
		return nil, p
	}
	if p := intake.JSON(r.Header); p != nil {
		return nil, p
	}
	body, free, p := intake.Read(w, r, intake.Limits{
		Size: most, Time: bodyTime, Room: &h.room, Total: maxTaken, From: ratelimit.NetworkOf(r.RemoteAddr),
	})
	if p != nil {
		return nil, p
	}
	if !json.Valid(body) || !small(string(body)) {
		p = problem.New(http.StatusBadRequest, "malformed",
			fmt.Sprintf("the body is not valid JSON of at most %d levels and %d brackets, names and values", maxDepth, maxValues))
	} else {
		p = decode(body)
	}
	if p != nil {
		free()
		return nil, p
	}
	return free, nil
}

// decoded decodes a valid body, and says what is wrong with it.
func decoded(body []byte, v any) *problem.Problem {
	err := json.Unmarshal(body, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return bad(strings.TrimSuffix("body."+wrong.Field, "."), "expected a value of type "+jsonType(wrong.Type.Kind().String()))
	}
	if err != nil {
		return bad("body", "is an object with the fields that this path knows")
	}
	return nil
}

var fieldName = pattern.New(`^[A-Za-z0-9_$-]{1,64}$`)

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
	case "float64":
		return "number"
	}
	return "integer"
}

// small reports whether a valid JSON text is nested no deeper, and has no more values, than may be.
func small(text string) bool {
	values := 0
	for s := jsonscan.New(text); ; values++ {
		if _, on := s.Next(); !on {
			return true
		}
		if s.Depth() > maxDepth || values >= maxValues {
			return false
		}
	}
}
