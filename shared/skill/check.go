package skill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
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

type checker struct{ schema *jsonschema.Schema }

func newChecker(name string, schema json.RawMessage) (*checker, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a schema loads no other
	url := "skill:" + name
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("schema of skill %s: %w", name, err)
	}
	return &checker{compiled}, nil
}

func (c *checker) check(arguments json.RawMessage) []Violation {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return []Violation{{Problem: "not a JSON object"}}
	}
	err = c.schema.Validate(doc)
	if err == nil {
		return nil
	}
	invalid, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // Validate returns it bare
	if !ok {
		return []Violation{{Problem: err.Error()}}
	}
	var out []Violation
	leaves(invalid, message.NewPrinter(language.English), &out)
	return out
}

// leaves collects the violations at the ends of the error tree: the ones that
// say what is wrong rather than that something is.
func leaves(e *jsonschema.ValidationError, p *message.Printer, out *[]Violation) {
	if len(e.Causes) == 0 {
		path := ""
		if len(e.InstanceLocation) > 0 {
			path = "/" + strings.Join(e.InstanceLocation, "/")
		}
		*out = append(*out, Violation{path, e.ErrorKind.LocalizedString(p)})
		return
	}
	for _, cause := range e.Causes {
		leaves(cause, p, out)
	}
}
