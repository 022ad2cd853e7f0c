package demo

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// schema is a decoded JSON Schema. Its methods read the keywords that the script needs. They treat
// values of an unexpected type as absent.
type schema map[string]any

func parseSchema(raw json.RawMessage) schema {
	var s schema
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}

// isObject reports whether s looks like a schema of an object.
func (s schema) isObject() bool {
	_, ok := s["properties"].(map[string]any)
	return ok
}

// property returns the schema of a property, or nil if there is none.
func (s schema) property(name string) schema {
	properties, _ := s["properties"].(map[string]any)
	p, ok := properties[name].(map[string]any)
	if ok && p == nil {
		p = map[string]any{}
	}
	return p
}

// closed reports whether s lists all properties that are allowed. A schema with properties counts
// as closed, so that the script does not invent others.
func (s schema) closed() bool { return s.isObject() || s["additionalProperties"] == false }

// types returns the types that s allows. An empty list means all.
func (s schema) types() []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var types []string
		for _, v := range t {
			if name, ok := v.(string); ok {
				types = append(types, name)
			}
		}
		return types
	}
	switch {
	case s.isObject():
		return []string{"object"}
	case s["items"] != nil:
		return []string{"array"}
	}
	return nil
}

// takes reports whether s allows values of the type.
func (s schema) takes(typ string) bool {
	types := s.types()
	for _, t := range types {
		if t == typ || t == "number" && typ == "integer" {
			return true
		}
	}
	return len(types) == 0
}

// list returns the value of a keyword that is an array.
func (s schema) list(keyword string) []any {
	l, _ := s[keyword].([]any)
	return l
}

// bound returns the value of a keyword that is a number.
func (s schema) bound(keyword string) (float64, bool) {
	f, ok := s[keyword].(float64)
	return f, ok
}

// size returns the value of a keyword that is a length.
func (s schema) size(keyword string) (int, bool) {
	f, ok := s.bound(keyword)
	return int(min(max(f, 0), math.MaxInt32)), ok
}

// middle returns the middle between minimum and maximum of s. Without these it returns otherwise.
func middle(s schema, otherwise int) json.Number {
	low, hasLow := s.bound("minimum")
	high, hasHigh := s.bound("maximum")
	if !hasLow || !hasHigh {
		return number(otherwise)
	}
	return float(low/2 + high/2)
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

func float(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'f', -1, 64)) }

// typeOf returns the JSON type of a value.
func typeOf(v any) string {
	switch v := v.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		return typeOf(float(v))
	case json.Number:
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// same reports whether two values are the same JSON.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && sameJSON(x, y)
}

// sameJSON reports whether two texts are the same JSON, independent of spacing.
func sameJSON[A, B ~string | ~[]byte](a A, b B) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return string(a) == string(b)
	}
	return reflect.DeepEqual(x, y)
}

// decodeObject decodes a JSON object and keeps its numbers as written. It returns nil on failure.
func decodeObject(text string) map[string]any {
	var m map[string]any
	if jsonscan.Decode([]byte(text), &m) != nil {
		return nil
	}
	return m
}

// within returns the text with a length that s allows.
func (s schema) within(text string) string {
	if most, ok := s.size("maxLength"); ok {
		text = cut(text, most)
	}
	if least, ok := s.size("minLength"); ok { // more than 1000 would not help
		text += strings.Repeat(".", max(0, min(least, 1000)-utf8.RuneCountInString(text)))
	}
	return text
}
