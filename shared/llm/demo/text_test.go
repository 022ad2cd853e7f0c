package demo

import (
	"encoding/json"
	"testing"
)

func TestDescribe(t *testing.T) {
	for result, want := range map[string]string{
		``:                        "0 characters",
		`saved`:                   "5 characters",
		`[1]`:                     "1 entry",
		`{"activities":[1,2]}`:    "2 entries",
		`{"id":"m1","ok":true}`:   "2 fields",
		`{"a":[1,2],"b":[1,2,3]}`: "2 fields",
		`"saved"`:                 "one value",
	} {
		if got := describe(result); got != want {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		" a \n\t b ":        "a b",
		"a\x00b\xffc":       "abc",
		"eleven long":       "eleven long",
		"twelve chars":      "twelve cha…",
		"äöüäöüäöüäöüäöü":   "äöüäöüäöüä…",
		"nine char\u200b s": "nine char\u200b…",
	} {
		if got := short(text, 11); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, test := range []struct {
		a, b     string
		same     bool
		distance int
	}{
		{"save_memory", "Save-Memory", true, 0},
		{"save_memory", "saveMemory", true, 0},
		{"save_memory", "save_memories", false, 3},
		{"save_memory", "save_memry", false, 1},
		{"_", "-", false, 0},
		{"", "abc", false, 3},
		{"set_objective", "plan_objective", false, 4},
	} {
		if got := sameName(test.a, test.b); got != test.same {
			t.Errorf("%q, %q: same is %v", test.a, test.b, got)
		}
		if got := distance(test.a, test.b); got != test.distance || distance(test.b, test.a) != got {
			t.Errorf("%q, %q: distance is %d and %d", test.a, test.b, got, distance(test.b, test.a))
		}
	}
}

func TestConvert(t *testing.T) {
	var f filler
	for _, test := range []struct {
		v      string // JSON
		schema string
		want   string
	}{
		{`2.5`, `{"type":"integer"}`, `3`},
		{`" 7 "`, `{"type":"integer"}`, `7`},
		{`"seven"`, `{"type":"integer"}`, `1`},
		{`"true"`, `{"type":"boolean"}`, `true`},
		{`"{\"a\":1}"`, `{"type":"object"}`, `{"a":1}`},
		{`[1,2]`, `{"type":"string"}`, `"[1,2]"`},
		{`null`, `{"type":"string"}`, `"[demo model] demo"`},
		{`null`, `{"items":{}}`, `[]`},
		{`1`, `{"type":"nonsense"}`, `1`},
		{`5.0`, `{"type":"integer"}`, `5.0`},
		{`12345678901234567890`, `{"type":"integer"}`, `12345678901234567890`},
	} {
		value := decodeObject(`{"v":` + test.v + `}`)["v"]
		got, err := json.Marshal(f.conform("v", value, parseSchema(json.RawMessage(test.schema))))
		if err != nil || string(got) != test.want {
			t.Errorf("%s as %s: got %s, %v, want %s", test.v, test.schema, got, err, test.want)
		}
	}
}
