package engineroom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// TypesFile is where the page's types of the API stand, below the folder web.
var TypesFile = filepath.Join("src", "app", "api.gen.ts")

// schema is the part of a JSON Schema that a type is made of.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 kinds
	Enum                 []any
	Items                *schema
	Properties           map[string]*schema
	Required             []string
	AdditionalProperties json.RawMessage
	OneOf, AnyOf         []*schema
}

// kinds is the type of a schema: one name, or a list of them.
type kinds []string

// UnmarshalJSON implements [json.Unmarshaler].
func (k *kinds) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*k = kinds{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(k))
}

// Types returns a TypeScript module with what each route that is read answers, by the API's OpenAPI
// document.
func Types(doc []byte) ([]byte, error) {
	var described struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]*schema }
	}
	if err := json.Unmarshal(doc, &described); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	var b bytes.Buffer
	answers := map[string]*schema{}
	used := map[string]bool{}
	for path, methods := range described.Paths {
		route, ours := strings.CutPrefix(path, "/api/v1")
		get, reads := methods["get"]
		if s := get.Responses["200"].Content["application/json"].Schema; ours && reads && s != nil {
			answers[route] = s
			s.uses(described.Components.Schemas, used)
		}
	}
	b.WriteString("// The types of the API, from its OpenAPI description. `make web` writes this file: do not edit it.\n")
	for _, name := range slices.Sorted(maps.Keys(used)) {
		s := described.Components.Schemas[name]
		if len(s.Properties) > 0 {
			fmt.Fprintf(&b, "\nexport interface %s %s\n", name, s.object(""))
		} else {
			fmt.Fprintf(&b, "\nexport type %s = %s;\n", name, s.text(""))
		}
	}
	b.WriteString("\n/** Answers is what each route answers to GET. */\nexport interface Answers {\n")
	for _, route := range slices.Sorted(maps.Keys(answers)) {
		fmt.Fprintf(&b, "  %s: %s;\n", strconv.Quote(route), answers[route].text("  "))
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema *schema }
	}
}

// uses adds the names of the schemas that a schema needs.
func (s *schema) uses(all map[string]*schema, used map[string]bool) {
	if s == nil {
		return
	}
	if name := s.name(); name != "" && !used[name] {
		used[name] = true
		all[name].uses(all, used)
	}
	s.Items.uses(all, used)
	s.more().uses(all, used)
	for _, one := range slices.Concat(s.OneOf, s.AnyOf, slices.Collect(maps.Values(s.Properties))) {
		one.uses(all, used)
	}
}

// name is the name of the schema that it refers to; empty: it stands for itself.
func (s *schema) name() string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

// more is what further properties are; nil: it is not said, or there are none.
func (s *schema) more() (more *schema) {
	if json.Unmarshal(s.AdditionalProperties, &more) != nil {
		return nil
	}
	return more
}

// text writes the type of a schema. indent is that of the line on which it begins.
func (s *schema) text(indent string) string {
	switch {
	case s == nil:
		return "unknown"
	case s.Ref != "":
		return s.name()
	case len(s.Enum) > 0:
		var of []string
		for _, v := range s.Enum {
			text, _ := json.Marshal(v) // it was JSON
			of = append(of, string(text))
		}
		if slices.Contains(s.Type, "null") && !slices.Contains(of, "null") {
			of = append(of, "null")
		}
		return strings.Join(of, " | ")
	}
	var of []string
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		of = append(of, one.text(indent))
	}
	for _, kind := range s.Type {
		switch kind {
		case "integer", "number":
			of = append(of, "number")
		case "array":
			item := s.Items.text(indent)
			if strings.ContainsAny(item, " {") {
				item = "(" + item + ")"
			}
			of = append(of, item+"[]")
		case "object":
			of = append(of, s.object(indent))
		default:
			of = append(of, kind)
		}
	}
	if of == nil {
		return "unknown"
	}
	return strings.Join(of, " | ")
}

func (s *schema) object(indent string) string {
	if len(s.Properties) == 0 {
		return "Record<string, " + s.more().text(indent) + ">"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if strings.HasPrefix(name, "$") {
			continue // where the schema stands
		}
		mark := "?"
		if slices.Contains(s.Required, name) {
			mark = ""
		}
		key := name
		if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			key = strconv.Quote(name)
		}
		fmt.Fprintf(&b, "%s  %s%s: %s;\n", indent, key, mark, s.Properties[name].text(indent+"  "))
	}
	b.WriteString(indent + "}")
	return b.String()
}
