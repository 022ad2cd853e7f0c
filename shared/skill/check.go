package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/schema"
)

// A Violation is one thing wrong with a call's arguments.
type Violation = schema.Violation

// Check lists everything that is wrong with a call's arguments. An empty list means that they are
// valid. Arguments that can't be checked completely, within the limits of [schema] and of the
// context, count as wrong.
func (s *Skill) Check(ctx context.Context, arguments json.RawMessage) []Violation {
	return s.check.check(ctx, s.current(arguments))
}

// A checker compiles its schema at the first use. Most invocations use few of the skills, and a
// cold start should not compile all schemas.
type checker struct {
	compiled func() (*schema.Schema, error)
}

func newChecker(parameters json.RawMessage) *checker {
	return &checker{sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(parameters) })}
}

func (c *checker) check(ctx context.Context, arguments json.RawMessage) []Violation {
	compiled, err := c.compiled()
	if err != nil {
		return []Violation{{Problem: fmt.Sprintf("the skill can't be used, its parameters are refused: %s", err)}}
	}
	doc, err := schema.Decode(arguments)
	if err != nil {
		return []Violation{{Problem: "not a JSON object"}}
	}
	var out []Violation
	if unkeepable(doc, "", 0, &out); len(out) > 0 {
		return out
	}
	out, err = compiled.Check(ctx, doc)
	switch {
	case errors.Is(err, schema.ErrTooMuch):
		return []Violation{{Problem: err.Error()}}
	case err != nil:
		return []Violation{{Problem: "the check was cut off"}}
	}
	return out
}

// unkeepable collects numbers that can't be stored, and values that are nested too deeply.
func unkeepable(v any, path string, depth int, out *[]Violation) {
	if depth > activity.MaxDepth/2 { // the stored record may wrap the value in more levels
		*out = append(*out, Violation{Path: path, Problem: "nested too deeply"})
		return
	}
	switch v := v.(type) {
	case json.Number:
		if !activity.Fits(v) {
			*out = append(*out, Violation{Path: path, Problem: "a number too large or too small to keep"})
		}
	case []any:
		for i, e := range v {
			unkeepable(e, path+"/"+strconv.Itoa(i), depth+1, out)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			unkeepable(v[k], path+"/"+pointerEscapes.Replace(k), depth+1, out)
		}
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
