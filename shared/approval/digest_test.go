package approval_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/approval"
)

func digestOf(t interface{ Fatal(...any) }, a approval.Approval) string {
	d, err := approval.DigestOf(a)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func withArguments(arguments string) approval.Approval {
	return approval.Approval{Skill: "s", Arguments: json.RawMessage(arguments), Execution: "e", Call: "1.1", ExpiresAt: time.Unix(1_700_000_000, 0)}
}

func TestTheSameCallHasTheSameDigest(t *testing.T) {
	for _, alike := range [][]string{
		{`{"a":1,"b":"x"}`, `{"b":"x","a":1}`, `{ "a" : 1.0, "b": "\u0078" }`, `{"a":10e-1,"b":"x"}`, `{"a":2,"a":1,"b":"x"}`},
		{`{"a":0.5}`, `{"a":5e-1}`, `{"a":0.500}`},
		{`{"a":[1e3]}`, `{"a":[1000]}`},
		{`{}`, ` { } `},
	} {
		for _, text := range alike {
			if digestOf(t, withArguments(text)) != digestOf(t, withArguments(alike[0])) {
				t.Errorf("%s is not %s", text, alike[0])
			}
		}
	}
}

func TestAnotherCallHasAnotherDigest(t *testing.T) {
	seen := map[string]string{}
	note := func(what string, a approval.Approval) {
		t.Helper()
		d := digestOf(t, a)
		if before, ok := seen[d]; ok {
			t.Errorf("%s is %s", what, before)
		}
		seen[d] = what
	}
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"a":"1"}`, `{"a":"number 1"}`, `{"a":"text 1"}`, `{"a":[1]}`, `{"a":{"number":"1"}}`, `{"a":null}`, `{"a":true}`, `{"b":1}`,
		`{"a":1.0000000000000000001}`, `{"a":9007199254740993}`, `{"a":9007199254740992}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`,
	} {
		note(text, withArguments(text))
	}
	for what, change := range map[string]func(*approval.Approval){
		"another skill":     func(a *approval.Approval) { a.Skill = "t" },
		"another row of it": func(a *approval.Approval) { a.SkillID = "t" },
		"another execution": func(a *approval.Approval) { a.Execution = "f" },
		"another call":      func(a *approval.Approval) { a.Call = "1.2" },
		"another expiry":    func(a *approval.Approval) { a.ExpiresAt = a.ExpiresAt.Add(time.Microsecond) },
		"parts moved":       func(a *approval.Approval) { a.Execution, a.Call = "e1", ".1" },
		"an edited input":   func(a *approval.Approval) { a.Edited = json.RawMessage(`{"c":1}`) },
	} {
		a := withArguments(`{}`)
		change(&a)
		note(what, a)
	}
	for _, bad := range []string{``, `[]`, `null`, `1`, `{"a":`} {
		if _, err := approval.DigestOf(withArguments(bad)); err == nil {
			t.Errorf("%q has a digest", bad)
		}
	}
}

// A digest, and a plain input, stay the same in every form in which a database may write JSON.
func TestADigestIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"v": value(3).Draw(t, "v")})
		if err != nil {
			t.Fatal(err)
		}
		want := digestOf(t, withArguments(string(raw)))
		var decoded map[string]any
		if err := json.Unmarshal(raw, &decoded); err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(decoded, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		plain, err := approval.Plain(raw)
		if err != nil {
			t.Fatal(err)
		}
		again, err := approval.Plain(plain)
		if err != nil || string(again) != string(plain) {
			t.Fatalf("plain is %s, then %s (%v)", plain, again, err)
		}
		for _, text := range []string{string(indented), string(plain)} {
			if digestOf(t, withArguments(text)) != want {
				t.Fatalf("%s is not %s", text, raw)
			}
		}
	})
}

func value(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Int32().AsAny(), rapid.Float64Range(-1e15, 1e15).AsAny(), rapid.Just[any](nil),
	}
	if depth > 0 {
		leaves = append(leaves, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), rapid.MapOfN(rapid.String(), value(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func FuzzDigest(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1e400}`, `{"a":1E-999999999}`, `{"a":"\ud800"}`, `[`, `{"a":{"a":[1,2.50]}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, err := approval.DigestOf(withArguments(s))
		if err != nil {
			return
		}
		plain, err := approval.Plain(json.RawMessage(s))
		if err != nil {
			t.Fatalf("%q has a digest and no plain form: %v", s, err)
		}
		if again, err := approval.DigestOf(withArguments(string(plain))); err != nil || again != first {
			t.Errorf("%q has another digest as %s (%v)", s, plain, err)
		}
	})
}
