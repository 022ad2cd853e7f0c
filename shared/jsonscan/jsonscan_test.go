package jsonscan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

func TestAReferenceIsReadAndItsMembersAreReplaced(t *testing.T) {
	text := `{"a": {"$ref":"x\u0041"}, "b": [{"$ref":1}, {"$ref":"y","c":2}, 1.50, true], "$ref": "z"}`
	var found []string
	var edits []jsonscan.Edit
	sc := jsonscan.New(text)
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		if t.Kind != '{' {
			continue
		}
		if value, ok := sc.Sole(t, "$ref"); ok {
			found = append(found, sc.Decoded(value))
			edits = append(edits, jsonscan.Edit{Start: t.Start, End: sc.At(), With: jsonscan.Quote("<&>")})
		}
	}
	if diff := cmp.Diff([]string{"xA"}, found); diff != "" {
		t.Error(diff)
	}
	want := `{"a": "<&>", "b": [{"$ref":1}, {"$ref":"y","c":2}, 1.50, true], "$ref": "z"}`
	if got := jsonscan.Apply(text, edits); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What the tokens cover, and what lies between them, is the text. Brackets are balanced, and each
// text decodes as encoding/json does.
func TestTokensCoverTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.MarshalIndent(value(t, 3), "", rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		sc, at := jsonscan.New(string(raw)), 0
		for token, ok := sc.Next(); ok; token, ok = sc.Next() {
			for _, c := range raw[at:token.Start] {
				if c != ' ' && c != '\t' && c != '\n' && c != ',' && c != ':' {
					t.Fatalf("%q lies between two tokens", c)
				}
			}
			if at = token.End; at != sc.At() {
				t.Fatalf("the token ends at %d, the scanner stands at %d", at, sc.At())
			}
			if token.Kind != '"' {
				continue
			}
			var want string
			if err := json.Unmarshal(raw[token.Start:token.End], &want); err != nil || sc.Decoded(token) != want {
				t.Fatalf("%s is read as %q (%v)", raw[token.Start:token.End], sc.Decoded(token), err)
			}
		}
		if at != len(raw) || sc.Depth() != 0 {
			t.Fatalf("the scanner ends at %d of %d, %d levels deep", at, len(raw), sc.Depth())
		}
	})
}

// value draws a JSON value of some depth.
func value(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		items := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range items {
			items[i] = value(t, depth-1)
		}
		return items
	case kind <= 2 && depth > 0:
		members := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members[rapid.String().Draw(t, "name")] = value(t, depth-1)
		}
		return members
	case kind == 3:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case kind == 4:
		return rapid.SampledFrom([]any{true, false, nil}).Draw(t, "word")
	}
	return rapid.String().Draw(t, "text")
}
