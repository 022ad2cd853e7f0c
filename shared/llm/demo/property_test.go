package demo

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// sane generates schemas that some value satisfies, of the kind that tools have.
func sane(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		low := rapid.IntRange(0, 5).Draw(t, "low")
		high := low + rapid.IntRange(0, 5).Draw(t, "more")
		kinds := []string{"string", "integer", "number", "boolean", "enum", "any", "array", "object"}
		if depth == 0 {
			kinds = kinds[:6]
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "string":
			return map[string]any{"type": kind, "minLength": low, "maxLength": high}
		case "integer", "number":
			return map[string]any{"type": kind, "minimum": low, "maximum": high}
		case "enum":
			return map[string]any{"enum": []any{"x", "note", low, nil}}
		case "any":
			return map[string]any{}
		case "array":
			return map[string]any{"type": kind, "items": sane(depth-1).Draw(t, "items"), "minItems": low, "maxItems": high}
		case "object":
			return object(depth-1).Draw(t, "object")
		default:
			return map[string]any{"type": []any{kind, "null"}}
		}
	})
}

func object(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		names := []string{"a", "b", "limit", "importance", "category", "content", "objectiveId", "steps"}
		properties := rapid.MapOfN(rapid.SampledFrom(names), sane(depth), 0, 4).Draw(t, "properties")
		required := []any{}
		for _, name := range names {
			if _, ok := properties[name]; ok && rapid.Bool().Draw(t, "required") {
				required = append(required, name)
			}
		}
		return map[string]any{
			"type": "object", "properties": properties, "required": required,
			"additionalProperties": rapid.Bool().Draw(t, "additional"),
		}
	})
}

// Whatever arguments a step has, they satisfy the tool's schema when the tool is called. A real
// validator checks it.
func TestArgumentsSatisfyTheSchema(t *testing.T) {
	values := []any{nil, true, "x", "7", "long enough for every limit", []any{}, []any{"x", json.Number("2.5"), nil}, map[string]any{"a": "b"},
		number(-3), number(3), number(99), json.Number("2.5"), json.Number("1e2")}
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(object(2).Draw(t, "schema"))
		if err != nil {
			t.Fatal(err)
		}
		args := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "limit", "content", "z"}), rapid.SampledFrom(values)).Draw(t, "args")
		f := filler{situation{said: "hello"}}
		got, err := json.Marshal(f.complete(llm.Tool{Name: "save_memory", Parameters: raw}, args))
		if err != nil {
			t.Fatal(err)
		}
		if err := invalid(raw, string(got)); err != nil {
			t.Fatalf("%s by %s: %v", got, raw, err)
		}
	})
}
