package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// conform returns v changed as little as needed to satisfy the schema, as far as the script
// supports schemas. name is the name of the argument.
func (f filler) conform(name string, v any, sch schema) any {
	if c, ok := sch["const"]; ok {
		return c
	}
	if choices := sch.list("enum"); len(choices) > 0 {
		return choose(v, choices)
	}
	if types := sch.types(); !sch.takes(typeOf(v)) {
		v = f.convert(v, types[0])
	}
	switch v := v.(type) {
	case string:
		return sch.within(v)
	case json.Number:
		return sch.clamp(v)
	case []any:
		return f.array(name, v, sch)
	case map[string]any:
		return f.object(v, sch)
	}
	return v
}

// convert converts v to another type.
func (f filler) convert(v any, typ string) any {
	text, isText := v.(string)
	switch typ {
	case "string":
		if v == nil {
			return mark + f.subject()
		}
		if n, ok := v.(json.Number); ok {
			return string(n)
		}
		raw, _ := json.Marshal(v)
		return string(raw)
	case "integer", "number":
		if n := json.Number(strings.TrimSpace(text)); isText && json.Valid([]byte(n)) {
			if _, err := n.Float64(); err == nil {
				return n
			}
		}
		if n, ok := v.(json.Number); ok {
			return n
		}
		return number(1)
	case "boolean":
		return fmt.Sprint(v) == "true"
	case "array":
		if v == nil {
			return []any{}
		}
		return []any{v}
	case "object":
		if m := decodeObject(text); m != nil {
			return m
		}
		return map[string]any{}
	case "null":
		return nil
	}
	return v // not a type of JSON Schema
}

func (f filler) array(name string, items []any, sch schema) any {
	items = slices.Clone(items)
	if most, ok := sch.size("maxItems"); ok && len(items) > most {
		items = items[:most]
	}
	element, _ := sch["items"].(map[string]any)
	for i, v := range items {
		items[i] = f.conform(name, v, element)
	}
	if least, ok := sch.size("minItems"); ok {
		for len(items) < min(least, 10) { // more elements would not help
			items = append(items, f.guess(name, element))
		}
	}
	if items == nil {
		return []any{} // not null
	}
	return items
}

func (f filler) object(m map[string]any, sch schema) any {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	for name, v := range m {
		if p := sch.property(name); p != nil {
			m[name] = f.conform(name, v, p)
		} else if sch["additionalProperties"] == false {
			delete(m, name)
		}
	}
	for _, r := range sch.list("required") {
		name, ok := r.(string)
		if _, has := m[name]; ok && !has {
			m[name] = f.guess(name, sch.property(name))
		}
	}
	return m
}

// choose returns the choice that equals v, or that differs only in case and separators. Otherwise
// it returns a neutral one.
func choose(v any, choices []any) any {
	text, isText := v.(string)
	modest := choices[0]
	for _, c := range choices {
		name, isName := c.(string)
		if same(v, c) || isText && isName && sameName(text, name) {
			return c
		}
		if slices.Contains([]string{"note", "general", "other"}, name) {
			modest = c
		}
	}
	return modest
}

// clamp returns the allowed number that is nearest to n.
func (s schema) clamp(n json.Number) json.Number {
	was, err := n.Float64()
	if err != nil {
		return number(1)
	}
	f := was
	if !s.takes("number") {
		f = math.Round(f)
	}
	if low, ok := s.bound("exclusiveMinimum"); ok && f <= low {
		f = math.Floor(low) + 1
	}
	if high, ok := s.bound("exclusiveMaximum"); ok && f >= high {
		f = math.Ceil(high) - 1
	}
	if low, ok := s.bound("minimum"); ok {
		f = max(f, low)
	}
	if high, ok := s.bound("maximum"); ok {
		f = min(f, high)
	}
	if f == was {
		return n
	}
	return float(f)
}
