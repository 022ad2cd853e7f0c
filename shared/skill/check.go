package skill

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/lanekeeper/lanekeeper/shared/activity"
)

// A Violation is one thing wrong with a call's arguments.
type Violation struct {
	Path    string // JSON pointer to it; empty is the whole
	Problem string
}

func (v Violation) String() string {
	if v.Path == "" {
		return v.Problem
	}
	return v.Path + ": " + v.Problem
}

// Check lists everything that is wrong with a call's arguments, or nothing.
func (s *Skill) Check(arguments json.RawMessage) []Violation {
	return s.check.check(arguments)
}

// A checker compiles its schema when it is first used: most invocations use few
// of the skills there are, and a cold start should not pay for the rest.
type checker struct {
	compiled func() (*jsonschema.Schema, error)
}

func newChecker(name string, schema json.RawMessage) *checker {
	return &checker{sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(name, schema) })}
}

func compile(name string, schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()                          // "format": "uuid" is a demand, not a remark
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a schema loads no other
	url := "skill:" + name
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	return compiled, nil
}

func (c *checker) check(arguments json.RawMessage) []Violation {
	schema, err := c.compiled()
	if err != nil {
		return []Violation{{Problem: "the skill can't be used: its schema is broken"}}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return []Violation{{Problem: "not a JSON object"}}
	}
	var out []Violation
	if unkeepable(doc, "", 0, &out); len(out) > 0 {
		return out // the library can't compare such a number with a limit
	}
	err = schema.Validate(doc)
	if err == nil {
		return nil
	}
	invalid, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // Validate returns it bare
	if !ok {
		return []Violation{{Problem: err.Error()}}
	}
	leaves(invalid, message.NewPrinter(language.English), &out)
	slices.SortFunc(out, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Problem, b.Problem))
	})
	return out
}

// unkeepable collects the numbers that do not fit and what is nested too deeply.
func unkeepable(v any, path string, depth int, out *[]Violation) {
	if depth > activity.MaxDepth/2 { // something may be put around it
		*out = append(*out, Violation{path, "nested too deeply"})
		return
	}
	switch v := v.(type) {
	case json.Number:
		if !activity.Fits(v) {
			*out = append(*out, Violation{path, "a number too large or too small to keep"})
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

// leaves collects the violations at the ends of the error tree: the ones that
// say what is wrong rather than that something is.
func leaves(e *jsonschema.ValidationError, p *message.Printer, out *[]Violation) {
	if len(e.Causes) == 0 {
		path := ""
		for _, token := range e.InstanceLocation {
			path += "/" + pointerEscapes.Replace(token)
		}
		if more, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			slices.Sort(more.Properties) // they come in a map's order
		}
		*out = append(*out, Violation{path, e.ErrorKind.LocalizedString(p)})
		return
	}
	for _, cause := range e.Causes {
		leaves(cause, p, out)
	}
}
