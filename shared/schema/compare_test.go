package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// theOther compiles the schema with an independent checker.
func theOther(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("x:y", doc); err != nil {
		return nil, err
	}
	return c.Compile("x:y")
}

// compare checks a value with both checkers if both accept the schema. The verdicts and the
// positions of the violations must be equal.
func compare(t interface{ Fatalf(string, ...any) }, ctx interface{ Helper() }, schema, value []byte, check func(*Schema, any) ([]Violation, error)) {
	ctx.Helper()
	s, err := Compile(schema)
	if err != nil {
		return
	}
	other, err := theOther(schema)
	if err != nil {
		t.Fatalf("%s is taken here, and refused there: %v", schema, err)
	}
	v, err := Decode(value)
	if err != nil {
		return
	}
	wrong, err := check(s, v)
	if err != nil {
		return // at its limit
	}
	twin, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	if err := other.Validate(twin); (err == nil) != (len(wrong) == 0) {
		t.Fatalf("schema %s\nvalue %s\nhere %v\nthere %v", schema, value, wrong, err)
	}
}

// names of properties and definitions; words for texts
var (
	names = []string{"a", "b", "ab", "x-1", "a/b", "~"}
	texts = []string{
		"", "a", "ab", "äöü€", "x-1", "12", "a@b.c", "2024-02-29", "2023-02-29", "12:00:00Z", "12:00:00.5+01:00", "2024-02-29T12:00:00Z", "P1D", "PT1H", "P",
		"1.2.3.4", "::1", "http://x/y", "/y", "01234567-89ab-7def-8123-456789abcdef", "a.b", "-a", "(", "~2", "/~1",
	}
	numbers  = []string{"0", "-0", "1", "2", "-1", "1.0", "1.5", "1e2", "0.1", "100", "12345678901234567890", "1e-7"}
	demanded = []string{"date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid", "regex", "json-pointer", "unknown"}
)

func anyValue(depth int) *rapid.Generator[any] {
	simple := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{nil, true, false}),
		rapid.Map(rapid.SampledFrom(numbers), func(n string) any { return json.Number(n) }),
		rapid.Map(rapid.SampledFrom(texts), func(s string) any { return s }),
	}
	if depth == 0 {
		return rapid.OneOf(simple...)
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(append(simple,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(s []any) any { return append([]any{}, s...) }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom(names), inner, 0, 4), func(m map[string]any) any { return m }),
	)...)
}

func anySchema(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 9).Draw(t, "boolean") == 0 {
			return rapid.Bool().Draw(t, "all")
		}
		out := map[string]any{}
		number := rapid.Map(rapid.SampledFrom(numbers), func(n string) any { return json.Number(n) })
		count := rapid.Map(rapid.IntRange(0, 3), func(n int) any { return n })
		someNames := rapid.Map(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID), func(s []string) any { return append([]string{}, s...) })
		words := map[string]*rapid.Generator[any]{
			"type": rapid.OneOf(rapid.SampledFrom([]any{"null", "boolean", "object", "array", "number", "string", "integer"}),
				rapid.Just[any]([]string{"string", "integer"}), rapid.Just[any]([]string{"object", "array", "number"})),
			"enum": rapid.Map(rapid.SliceOfN(anyValue(1), 1, 4), func(s []any) any { return s }), "const": anyValue(1),
			"minimum": number, "maximum": number, "exclusiveMinimum": number, "exclusiveMaximum": number,
			"multipleOf": rapid.SampledFrom([]any{1, 2, 0.1, json.Number("1e-3"), 1.5}),
			"minLength":  count, "maxLength": count, "minItems": count, "maxItems": count, "minProperties": count, "maxProperties": count,
			"minContains": count, "maxContains": count, "uniqueItems": rapid.Just[any](true),
			"pattern":           rapid.SampledFrom([]any{"^a", "b$", "[0-9]+", "ö", "^$", "a{2}"}),
			"format":            rapid.Map(rapid.SampledFrom(demanded), func(s string) any { return s }),
			"required":          someNames,
			"dependentRequired": rapid.Map(rapid.MapOfN(rapid.SampledFrom(names), someNames, 0, 2), func(m map[string]any) any { return m }),
			"$ref":              rapid.SampledFrom([]any{"#/$defs/a", "#/$defs/b", "#/$defs/a~1b", "#/$defs/%7E0", "#"}),
		}
		if depth > 0 {
			sub := anySchema(depth - 1)
			subs := rapid.Map(rapid.SliceOfN(sub, 1, 3), func(s []any) any { return s })
			named := rapid.Map(rapid.MapOfN(rapid.SampledFrom(names), sub, 0, 3), func(m map[string]any) any { return m })
			for _, word := range []string{"items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"} {
				words[word] = sub
			}
			for _, word := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
				words[word] = subs
			}
			words["properties"], words["dependentSchemas"] = named, named
			words["patternProperties"] = rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"^a", "b$", "-"}), sub, 0, 2), func(m map[string]any) any { return m })
		}
		all := make([]string, 0, len(words))
		for word := range words {
			all = append(all, word)
		}
		slices.Sort(all)
		for _, word := range rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 4, rapid.ID).Draw(t, "words") {
			out[word] = words[word].Draw(t, word)
		}
		return out
	})
}

// TestTheVerdictsAreThoseOfAnother compares random schemas and values.
func TestTheVerdictsAreThoseOfAnother(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schema := map[string]any{"$defs": map[string]any{}}
		defs := schema["$defs"].(map[string]any) //nolint:forcetypeassert // just made
		for _, name := range names {
			defs[name] = anySchema(1).Draw(rt, "definition")
		}
		schema["allOf"] = []any{anySchema(3).Draw(rt, "schema")}
		raw, err := json.Marshal(schema)
		if err != nil {
			rt.Fatal(err)
		}
		for range 5 {
			value, err := json.Marshal(anyValue(3).Draw(rt, "value"))
			if err != nil {
				rt.Fatal(err)
			}
			compare(rt, t, raw, value, func(s *Schema, v any) ([]Violation, error) { return s.Check(t.Context(), v) })
		}
	})
}

// FuzzCheck searches for schemas and values with different verdicts, or that take too long.
func FuzzCheck(f *testing.F) {
	for schema, value := range map[string]string{
		`{"type":"object","properties":{"a":{"format":"uri"}},"required":["a"]}`:          `{"a":"http://[::1]/"}`,
		`{"anyOf":[{"items":{"$ref":"#"}},{"type":"integer"}]}`:                           `[[1,[2.5]]]`,
		`{"oneOf":[{"minimum":1},{"maxLength":2}],"not":{"const":3}}`:                     `3.0`,
		`{"patternProperties":{"^a":{"multipleOf":0.1}},"propertyNames":{"pattern":"a"}}`: `{"ab":0.3}`,
		`{"contains":{"enum":[1,{"a":[]}]},"maxContains":1,"uniqueItems":true}`:           `[1,{"a":[]},1.0]`,
		`{"if":{"format":"date-time"},"then":{"format":"email"}}`:                         `"2024-02-29T23:59:59.1Z"`,
	} {
		f.Add([]byte(schema), []byte(value))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if len(schema) > 2000 || bytes.Contains(schema, []byte("$schema")) || bytes.Contains(schema, []byte("$id")) || bytes.Contains(schema, []byte("format")) && !sameFormats(schema) {
			return
		}
		compare(t, t, schema, value, func(s *Schema, v any) ([]Violation, error) { return s.Check(t.Context(), v) })
	})
}

// sameFormats reports whether a schema only names formats that both checkers treat alike.
func sameFormats(schema []byte) bool {
	for _, name := range []string{"period", "relative", "iri", "template", "semver", "time"} { // time: leap seconds
		if strings.Contains(string(schema), name) {
			return false
		}
	}
	return true
}

// Hours have two digits, and an offset has fewer than 60 minutes.
func TestTimesAreWrittenInFull(t *testing.T) {
	for text, valid := range map[string]bool{
		"12:00:00Z": true, "12:00:00.5-23:59": true, "1:00:00.5Z": false, "1:00:00+01:00": false, "12:00:00+01:60": false, "12:00:00,5Z": false,
	} {
		for format, value := range map[string]string{"time": text, "date-time": "2024-02-29t" + text} {
			wrong, err := compiled(t, `{"format":"`+format+`"}`).Check(t.Context(), value)
			if err != nil || (len(wrong) == 0) != valid {
				t.Errorf("%s %q: %v, %v", format, value, wrong, err)
			}
		}
	}
}
