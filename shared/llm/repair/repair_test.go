package repair_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm/repair"
)

func TestObject(t *testing.T) {
	const no = "" // there is no interpretation, or more than one
	for _, c := range []struct{ broken, want string }{
		// Valid text stays as it is.
		{`{"a": 1}`, `{"a": 1}`}, {" {\"a\":1.50}\n", `{"a":1.50}`}, {`{}`, `{}`}, {`{"a": 1, "a": 1}`, `{"a": 1, "a": 1}`},
		// Text around the object.
		{"```json\n{\"a\": 1}\n```", `{"a":1}`}, {"```\n{\"a\": 1}\n```", `{"a":1}`}, {"```json\n{\"a\": 1}", `{"a":1}`}, {"{\"a\": 1}\n```", `{"a":1}`},
		{"```json {\"a\": \"```\"} ```", "{\"a\":\"```\"}"}, {"Here: {\"a\": 1}", `{"a":1}`}, {`{"a": 1} as you asked.`, `{"a":1}`},
		{"\ufeff{\"a\": 1}", `{"a": 1}`}, {"\u00a0{\"a\":\u00a01}", `{"a":1}`}, {`{"a": 1};`, `{"a":1}`}, {`{"a": 1}}`, `{"a":1}`}, {`{"a": 1}}}`, no},
		{`{"a": 1}{"a": 1}`, `{"a":1}`}, {"{\"a\": 1}\n{\"a\": 1}", `{"a":1}`}, {`{"a": 1}{"a": 2}`, no}, {`{"a": 1}, {"b": 2}`, no}, {`[{"a": 1}]`, no},
		{`{"a": 1} [x]`, no}, {`see {x} {"a": 1}`, no}, {"```json\n{\"a\": 1}\n```\n```json\n{\"a\": 2}\n```", no}, {`arguments = {"a": 1}`, `{"a":1}`},
		// An empty object in prose is not accepted, nor one before another object.
		{`I call it with {}.`, no}, {`{} is all it takes`, no}, {`arguments = {}`, no}, {"Sure:\n```json\n{}\n```", no}, {"```json\n{}\n```\nDone.", no},
		{"```json\n{}\n```", `{}`}, {"{ }\n", `{ }`}, {`{};`, `{}`}, {"{ /* none */ }", `{}`}, {`{}{}`, `{}`}, {`"{}"`, `{}`},
		{`{}{"a": 1}`, `{"a": 1}`}, {"{}\n{'a': 1}", `{"a":1}`}, {`{}{"a": 1}{"a": 1}`, `{"a":1}`}, {`{}{"a": 1}{"a": 2}`, no}, {`{"a": 1}{}`, no}, {`{}, {"a": 1}`, no}, {`{} or {"a": 1}`, no},
		// Escaped, between the parts and as a whole.
		{`{\n  "a": 1,\n\t"b": [\r\n1]\n}`, `{"a":1,"b":[1]}`}, {`{"a": "x\ny"\n}`, `{"a":"x\ny"}`}, {`\n{"a": 1}\n`, `{"a":1}`}, {`{"a": 1\n"b": 2}`, `{"a":1,"b":2}`}, {`{"a": tr\nue}`, no}, {`{"a": 1\x}`, no},
		{`{\"a\": \"b\"}`, `{"a": "b"}`}, {`{\n  \"a\": \"say \\\"x\\\" \\n\"\n}`, "{\n  \"a\": \"say \\\"x\\\" \\n\"\n}"}, {"{\n  \\\"a\\\": 1\n}", "{\n  \"a\": 1\n}"},
		{`{\"a\": \"b"}`, no}, {`{\"a\": 1, "b": 2}`, no}, {`{\"a\": \"x`, no}, {`{\"a\": 1, \"a\": 2}`, no}, {`{\"a\": [1, 2]`, `{"a":[1,2]}`}, {`{\'a\': 1}`, no},
		// Within a string.
		{`"{\"a\": 1}"`, `{"a": 1}`}, {`"\"{\\\"a\\\": 1}\""`, `{"a": 1}`}, {`"{'a': 1}"`, `{"a":1}`}, {`"a"`, no}, {`"{"a": 1}"`, `{"a":1}`},
		// Commas and comments.
		{`{"a": 1,}`, `{"a":1}`}, {`{"a": [1, 2,],}`, `{"a":[1,2]}`}, {`{"a": 1,,"b": 2}`, no}, {`{,"a": 1}`, `{"a":1}`}, {`{"a": 1 "b": 2}`, no},
		{"{\"a\": 1\n\"b\": 2}", `{"a":1,"b":2}`}, {"{\"a\": \"x\"\n'b': [{}\n{}]}", `{"a":"x","b":[{},{}]}`}, {"{\"a\": {\"b\": 1}\n\n\"c\": 2}", `{"a":{"b":1},"c":2}`},
		{"{\"a\": [\"x\"\n\"y\"]}", no}, {"{\"a\": [1\n2]}", no}, {"{\"a\": \"x\"\n\"b\"}", no}, {"{\"a\": 1\nb: 2}", no}, {"{\"a\": 1, // one\n\"b\": 2\n\"c\": 3}", `{"a":1,"b":2,"c":3}`},
		{"{\"a\": [[1]\n[2]]}", `{"a":[[1],[2]]}`}, {"{\"a\": 1\n\"a\": 2}", no}, {"{\"a\": \"x\n\"b\": 2}", no}, {`{,}`, no}, {`{"a": [,1]}`, no}, {`{,,"a": 1}`, no},
		{`{"a": {, "b": 1}}`, `{"a":{"b":1}}`}, {"{\"a\": 1, // one\n\"b\": 2}", `{"a":1,"b":2}`}, {`{"a": /* one */ 1}`, `{"a":1}`}, {`{"a": "x" // y`, no}, {`{"a": 1 /* }`, no},
		{`{"url": "http://x"}`, `{"url": "http://x"}`}, {`{"url": "http://x",}`, `{"url":"http://x"}`},
		// Quotes.
		{`{'a': 'b'}`, `{"a":"b"}`}, {`{'a': "it's"}`, `{"a":"it's"}`}, {`{'a': 'say "x"'}`, `{"a":"say \"x\""}`}, {`{'a': 'it's'}`, no}, {`{'a': 'it\'s'}`, `{"a":"it's"}`},
		{`{“a”: “b”}`, `{"a":"b"}`}, {`{“a”: “say "x"”}`, no}, {`{"a": "say "x" now"}`, no}, {`{"a": "it\'s"}`, `{"a":"it's"}`}, {`{"a": "x\_y"}`, no}, {`{‘a’: 1}`, `{"a":1}`},
		{`{a: 1}`, `{"a":1}`}, {`{a_b-c1: 1}`, `{"a_b-c1":1}`}, {`{größe: 1}`, `{"größe":1}`}, {`{1: 2}`, `{"1":2}`}, {`{"a": {0: 1, 10: 2}}`, `{"a":{"0":1,"10":2}}`}, {`{01: 2}`, no}, {`{1.5: 2}`, no}, {`{-1: 2}`, no}, {`{1e3: 2}`, no}, {`{1: 2, "1": 3}`, no}, {`{1a: 2}`, no}, {`{a: b}`, no}, {`{"a" = 1}`, no}, {`{"a" => 1}`, no},
		{"{\"a\": \"x\ny\"}", `{"a":"x\ny"}`}, {"{\"a\": \"x\ty\"}", `{"a":"x\ty"}`}, {`{"a": "\u00e4\ud83d\ude42",}`, `{"a":"ä🙂"}`}, {`{"a": "<&>",}`, `{"a":"<&>"}`},
		// Words and numbers.
		{`{"a": True, "b": False, "c": None}`, `{"a":true,"b":false,"c":null}`}, {`{"a": TRUE, "b": FALSE, "c": NULL, "d": [NONE, Null]}`, `{"a":true,"b":false,"c":null,"d":[null,null]}`}, {`{"a": TRue}`, no}, {`{"a": T}`, no}, {`{"a": yes}`, no}, {`{"a": undefined}`, no}, {`{"a": NaN}`, no}, {`{"a": Infinity}`, no},
		{`{"a": 01}`, no}, {`{"a": +1}`, no}, {`{"a": .5}`, no}, {`{"a": 0x10}`, no}, {`{"a": 1_000}`, no}, {`{"a": 1,000}`, no}, {`{"a": 12345678901234567890.10,}`, `{"a":12345678901234567890.10}`}, {`{"a": -1e5,}`, `{"a":-1e5}`},
		// The end is missing.
		{`{"a": "x"`, `{"a":"x"}`}, {`{"a": [1, 2]`, `{"a":[1,2]}`}, {`{"a": {"b": [true`, `{"a":{"b":[true]}}`}, {`{"a": 12`, no}, {`{"a": "x`, no}, {`{"a": `, no}, {`{"a"`, no},
		{`{"a": tru`, no}, {`{"a": [1, 2`, no}, {`{"a": "x",`, no}, {`{`, no}, {`{"a": {`, no}, {`{"a": []`, `{"a":[]}`}, {`{"a": "x"]`, no}, {`{"a": ["x"}`, no},
		// Two values for one key.
		{`{"a": 1, "a": 2}`, no}, {`{"a": 1, 'a': 1}`, `{"a":1,"a":1}`}, {`{"a": {"b": 1, "b": 2},}`, no},
		// No object at all.
		{``, no}, {`  `, no}, {`null`, no}, {`the first`, no}, {`[1]`, no}, {`"x`, no}, {"{\"a\": \"\xff\"}", no}, {`}{`, no},
		{strings.Repeat(`{"a":`, 200), no}, {strings.Repeat("[", 10_000), no}, {strings.Repeat("{}", 1000), no},
	} {
		got, ok := repair.Object(c.broken, false)
		if string(got) != c.want || ok != (c.want != no) {
			t.Errorf("%q\n got %q, %v\nwant %q", clip(c.broken), got, ok, c.want)
		}
	}
}

func clip(s string) string { return s[:min(len(s), 100)] }

// TestOfAnAnswerThatWasCutOffNothingIsAdded: more than a bracket may be missing.
func TestOfAnAnswerThatWasCutOffNothingIsAdded(t *testing.T) {
	for _, broken := range []string{
		`{"a": "x"`, `{"a": [1, 2]`, `{"a": {"b": true`, `{\"a\": [1]`, `{\n"a": TRUE`, "{\"a\": 1\n\"b\": 2", `{}{"a": 1`, `{,"a": 1`, `{1: 2`, `{}`[:1],
	} {
		if got, ok := repair.Object(broken, true); ok {
			t.Errorf("%q became %s", broken, got)
		}
	}
	for broken, want := range map[string]string{
		"```json\n{'a': 1}": `{"a":1}`, `{}{"a": 1}`: `{"a": 1}`, `{\"a\": 1}`: `{"a": 1}`, "{\"a\": 1\n\"b\": TRUE}": `{"a":1,"b":true}`, `{,1: 2\n}`: `{"1":2}`,
	} {
		if got, ok := repair.Object(broken, true); !ok || string(got) != want {
			t.Errorf("%q became %q, %v", broken, got, ok)
		}
	}
}

// values generates JSON values of any form.
func values(depth int) *rapid.Generator[any] {
	simple := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](false),
		rapid.Map(rapid.IntRange(-1e9, 1e9), func(n int) any { return float64(n) }),
		rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune("ab ,:{}[]'\"\\/\n\t`“”äµ🙂#0"))), func(s string) any { return s }),
	}
	if depth == 0 {
		return rapid.OneOf(simple...)
	}
	inner := values(depth - 1)
	return rapid.OneOf(append(simple,
		rapid.Map(rapid.SliceOfN(inner, 0, 3), func(s []any) any { return append([]any{}, s...) }),
		rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z_' "]{1,6}`), inner, 0, 3), func(m map[string]any) any { return m }),
	)...)
}

// breakages are typical errors of models in JSON.
var breakages = map[string]func(string) string{
	"fence":      func(s string) string { return "```json\n" + s + "\n```" },
	"prose":      func(s string) string { return "Sure, here: " + s },
	"twice":      func(s string) string { return s + "\n" + s },
	"comma":      func(s string) string { return strings.TrimSuffix(s, "}") + ",}" },
	"string":     func(s string) string { raw, _ := json.Marshal(s); return string(raw) },
	"brace":      func(s string) string { return strings.TrimSuffix(s, "}") },
	"more":       func(s string) string { return s + "}" },
	"raw breaks": func(s string) string { return strings.ReplaceAll(s, `\n`, "\n") },
	"apostrophes": func(s string) string {
		if strings.ContainsAny(s, `'\`) {
			return s
		}
		return strings.ReplaceAll(s, `"`, `'`)
	},
	"empty first":   func(s string) string { return "{}" + s },
	"escaped break": func(s string) string { return strings.Replace(s, "{", `{\n  `, 1) + `\n` },
	"leading comma": func(s string) string { return strings.Replace(s, "{", "{,", 1) },
	"upper case": func(s string) string {
		return strings.NewReplacer("true", "TRUE", "false", "FALSE", "null", "NULL").Replace(s)
	},
	"escaped": func(s string) string { raw, _ := json.Marshal(s); return string(raw[1 : len(raw)-1]) },
	"no commas": func(s string) string {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &members) != nil {
			return s
		}
		var lines []string
		for name, value := range members {
			lines = append(lines, fmt.Sprintf("%q: %s", name, value))
		}
		return "{" + strings.Join(lines, "\n") + "}"
	},
	"numbers for keys": func(s string) string { return strings.ReplaceAll(s, `"7":`, "7:") },
	"python":           func(s string) string { return strings.ReplaceAll(s, "true", "True") },
	"bare keys":        func(s string) string { return strings.ReplaceAll(s, `"a":`, "a:") },
}

// TestNothingElseIsEverMeant: a damaged object is either repaired to the original or refused.
func TestNothingElseIsEverMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}|7`), values(2), 0, 4).Draw(t, "object")
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		if err := e.Encode(object); err != nil {
			t.Fatal(err)
		}
		broken := strings.TrimSpace(text.String())
		names := rapid.SampledFrom([]string{"fence", "prose", "twice", "comma", "string", "brace", "more", "raw breaks", "apostrophes", "python", "bare keys",
			"empty first", "escaped break", "leading comma", "upper case", "escaped", "no commas", "numbers for keys"})
		for _, name := range rapid.SliceOfNDistinct(names, 1, 2, rapid.ID).Draw(t, "breakages") {
			broken = breakages[name](broken)
		}
		got, ok := repair.Object(broken, false)
		if !ok {
			return
		}
		var back map[string]any
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, object) {
			t.Fatalf("%s\nof %s\nbecame %s", broken, text.String(), got)
		}
	})
}

func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{"a": 1,}`, "```json\n{'a': \"b\"}\n```", `{"a": [1, {"b": "x"`, `"{\"a\": 1}"`, `{“a”: True} // x`, `{}{}{}`} {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, broken string, cut bool) {
		got, ok := repair.Object(broken, cut)
		if !ok {
			return
		}
		if !json.Valid(got) || got[0] != '{' {
			t.Fatalf("%q became %q", broken, got)
		}
		if again, ok := repair.Object(string(got), cut); !ok || !bytes.Equal(again, got) {
			t.Fatalf("%q became %q, and that %q, %v", broken, got, again, ok)
		}
	})
}
