package skill_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const schema = `{
  "type": "object",
  "properties": {
    "title": {"type": "string", "minLength": 1, "maxLength": 5},
    "priority": {"type": "integer", "minimum": 1, "maximum": 10},
    "kind": {"enum": ["a", "b"]},
    "id": {"type": "string", "format": "uuid"},
    "steps": {"type": "array", "maxItems": 3, "items": {
      "type": "object",
      "properties": {"name": {"type": "string"}, "a/b~c": {"type": "integer"}},
      "required": ["name"],
      "additionalProperties": false
    }}
  },
  "required": ["title"],
  "additionalProperties": false
}`

func paths(violations []skill.Violation) []string {
	var out []string
	for _, v := range violations {
		out = append(out, v.Path)
	}
	return out
}

func TestCheckAcceptsWhatFits(t *testing.T) {
	k := withSchema(t, schema)
	for _, arguments := range []string{
		`{"title": "a"}`,
		`{"title": "äöüß€", "priority": 10, "kind": "b", "steps": []}`,
		`{"title": "a", "priority": 5.0, "steps": [{"name": ""}, {"name": "x", "a/b~c": -1e2}]}`,
		`{"title": "a", "id": "01234567-89ab-7def-8123-456789abcdef"}`,
		`{"title": "\u0000\ud800"}`,
	} {
		if v := k.Check(t.Context(), []byte(arguments)); len(v) > 0 {
			t.Errorf("%s: %v", arguments, v)
		}
	}
}

func TestCheckListsEverythingAtOnceByPointer(t *testing.T) {
	k := withSchema(t, schema)
	v := k.Check(t.Context(), []byte(`{"title": "too long", "priority": 11, "kind": "c", "id": "1", "more": 1,
	  "steps": [{"name": "x"}, {"a/b~c": "1"}, {"name": 1, "other": true}]}`))
	want := []string{"", "/id", "/kind", "/priority", "/steps/1", "/steps/1/a~1b~0c", "/steps/2", "/steps/2/name", "/title"}
	if got := paths(v); !slices.Equal(got, want) {
		t.Errorf("violations at %q, want %q\n%v", got, want, v)
	}
	for _, violation := range v {
		if violation.Problem == "" || violation.Path != "" && !strings.HasPrefix(violation.String(), violation.Path+": ") {
			t.Errorf("%q says %q", violation.String(), violation.Problem)
		}
	}
}

func TestCheckSaysTheSameEachTime(t *testing.T) {
	k := withSchema(t, schema)
	bad := []byte(`{"priority": 0, "kind": 1, "id": 2, "w": 1, "x": 2, "y": 3, "z": 4, "steps": [1, 2, 3, 4]}`)
	first := k.Check(t.Context(), bad)
	for range 50 {
		if again := k.Check(t.Context(), bad); !slices.Equal(again, first) {
			t.Fatalf("first %v, then %v", first, again)
		}
	}
}

func TestCheckRefusesWhatIsNotAnObject(t *testing.T) {
	k := withSchema(t, schema)
	for _, arguments := range []string{``, `{`, `{"title": "a"} {}`, `[]`, `null`, `1`, `"x"`} {
		if v := k.Check(t.Context(), []byte(arguments)); len(v) == 0 {
			t.Errorf("%q was accepted", arguments)
		}
	}
}

func TestCheckRefusesNumbersNothingCanHold(t *testing.T) {
	k := withSchema(t, schema)
	free := withSchema(t, `{"type": "object"}`)
	for _, number := range []string{"1e9999999", "-1e9999999", "1e-9999999", "1E400", "0.1e-400", "1" + strings.Repeat("0", 400)} {
		if v := k.Check(t.Context(), []byte(`{"title": "a", "priority": `+number+`}`)); !slices.Equal(paths(v), []string{"/priority"}) {
			t.Errorf("%s: %v", number, v)
		}
		if v := free.Check(t.Context(), []byte(`{"a": [{"b/c": `+number+`}]}`)); !slices.Equal(paths(v), []string{"/a/0/b~1c"}) {
			t.Errorf("%s: %v", number, v)
		}
	}
	for _, number := range []string{"0e9999999", "0.0", "-0", "1.7e308", "4.9e-324"} {
		if v := free.Check(t.Context(), []byte(`{"a": `+number+`}`)); len(v) > 0 {
			t.Errorf("%s: %v", number, v)
		}
	}
}

func TestCheckRefusesDeepNesting(t *testing.T) {
	k := withSchema(t, `{"type": "object"}`)
	nested := func(n int) []byte {
		return []byte(`{"a": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	if v := k.Check(t.Context(), nested(99)); len(v) > 0 {
		t.Errorf("nested 99 deep: %v", v)
	}
	for _, n := range []int{101, 9_000, 1_000_000} {
		if v := k.Check(t.Context(), nested(n)); len(v) != 1 || len(v[0].Path) > 500 {
			t.Errorf("nested %d deep: %v", n, v)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"title": "a"}`, `{"title": 1, "steps": [{}, 1, null]}`, `{"priority": 1e9999999}`, `{"priority": 0e9999999}`, `{"priority": 5.0}`,
		`{"id": "01234567-89AB-7DEF-8123-456789ABCDEF"}`, `{"title": "\ud800"}`, "{\"title\": \"\xff\"}", `{"a~/b": {}}`, `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	k := withSchema(f, schema)
	f.Fuzz(func(t *testing.T, arguments []byte) {
		v := k.Check(t.Context(), arguments)
		if len(v) == 0 {
			var read struct {
				Title    *string
				Priority *float64
				Steps    []struct{ Name *string }
			}
			if err := json.Unmarshal(arguments, &read); err != nil || read.Title == nil || utf8.RuneCountInString(*read.Title) > 5 {
				t.Errorf("accepted, and read as %+v: %v", read, err)
			}
		}
		for _, violation := range v {
			if violation.Problem == "" || violation.Path != "" && violation.Path[0] != '/' {
				t.Errorf("the violation %+v says nothing", violation)
			}
		}
	})
}

// bomb returns a schema that visits the parameter a four times more often with each level.
func bomb(levels int) []byte {
	defs := fmt.Sprintf(`"a%d":{"type":"integer"}`, levels)
	for i := range levels {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		defs += fmt.Sprintf(`,"a%d":{"anyOf":[{"allOf":[%s,%s]},{"allOf":[%s,%s]}]}`, i, next, next, next, next)
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{"a":{"$ref":"#/$defs/a0"}},"$defs":{%s}}`, defs)
}

// TestAStoredBombIsDefused stores schemas that no registration accepts. A call ends immediately,
// with little memory, however deep they are.
func TestAStoredBombIsDefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i, levels := range []int{9, 10, 14, 100} {
			_, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Bad, ids(), fmt.Sprintf("bomb_%d", i), "lambda", "d",
				string(bomb(levels)), `{"good":true}`, "both", false, false, nil, true, nil, nil, false, 1, "me")
			if err != nil {
				t.Fatal(err)
			}
		}
		set, _, err := w.Load(t.Context(), w.Workspace, trace.Operate)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			k, ok := set.Find(fmt.Sprintf("bomb_%d", i))
			if !ok {
				t.Fatalf("there is no skill of bomb %d", i)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v := k.Check(t.Context(), []byte(`{"a":"x"}`))
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; len(v) == 0 || used > 16<<20 {
				t.Errorf("bomb %d: %v after %d bytes", i, v, used)
			}
		}
	})
}
