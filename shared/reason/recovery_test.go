package reason_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// gadget is one of many tools with different parameters, together with a valid call.
type gadget struct {
	name   string
	schema map[string]any
	args   map[string]any
}

// gadgets returns tools with different names, numbers and types of parameters, nesting and formats.
// No two share a parameter, so that a call fits only one tool.
func gadgets(n int, seed uint64) []gadget {
	r := rand.New(rand.NewPCG(seed, 7))
	verbs := []string{"send", "fetch", "create", "delete", "update", "search", "list", "move", "rename", "approve"}
	nouns := []string{"invoice", "ticket", "customer", "page", "order", "report", "meeting", "file", "user", "label"}
	var out []gadget
	for i := range n {
		g := gadget{name: verbs[i%10] + "_" + nouns[i/10%10]}
		if i >= 100 {
			g.name += fmt.Sprint("_", i)
		}
		properties, required, args := map[string]any{}, []string{}, map[string]any{}
		for j := range 1 + r.IntN(5) {
			name := fmt.Sprintf("%s_%c%d", nouns[i/10%10], 'a'+j, i)
			properties[name], args[name] = parameter(r, 0)
			if j == 0 || r.IntN(2) == 0 {
				required = append(required, name)
			}
		}
		g.schema = map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
		g.args = args
		out = append(out, g)
	}
	return out
}

// parameter returns a schema and a value that fits it and is not a string of digits.
func parameter(r *rand.Rand, depth int) (schema, value any) {
	words := []string{"plain", `with "quotes" and \ slashes`, "naïve – ünïcode 🙂", "two\nlines", "{braces} and [brackets]", "it's, a: comma", ""}
	switch k := r.IntN(8); {
	case k == 1:
		return map[string]any{"type": "integer", "minimum": -1000}, r.IntN(2000) - 1000
	case k == 2:
		return map[string]any{"type": "number"}, float64(r.IntN(10000))/16 - 100
	case k == 3:
		return map[string]any{"type": "boolean"}, r.IntN(2) == 0
	case k == 4:
		return map[string]any{"type": "string", "enum": []string{"low", "middle", "high"}}, []string{"low", "middle", "high"}[r.IntN(3)]
	case k == 5:
		return map[string]any{"type": "string", "format": "date"}, fmt.Sprintf("2026-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28))
	case k == 6 && depth < 2:
		inner, one := parameter(r, depth+1)
		return map[string]any{"type": "array", "items": inner, "minItems": 1}, []any{one}
	case k == 7 && depth < 2:
		inner, one := parameter(r, depth+1)
		return map[string]any{
			"type": "object", "properties": map[string]any{"inner": inner}, "required": []string{"inner"}, "additionalProperties": false,
		}, map[string]any{"inner": one}
	}
	return map[string]any{"type": "string"}, words[r.IntN(len(words))]
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// changed returns a copy of the valid arguments with one change.
func (g gadget) changed(change func(map[string]any)) string {
	args := maps.Clone(g.args)
	change(args)
	return encoded(args)
}

// wrongs returns wrong calls of one of the gadgets, as a name and arguments, by the kind of
// mistake.
func wrongs(all []gadget, i int, r *rand.Rand) map[string][2]string {
	g, other := all[i], all[(i+1+r.IntN(len(all)-1))%len(all)]
	required := g.schema["required"].([]string)[0]
	return map[string][2]string{
		"made-up name":      {[]string{"perform_" + g.name, strings.ToUpper(g.name) + "_NOW", "functions." + g.name + "_v2", "", "工具"}[i%5], encoded(g.args)},
		"argument missing":  {g.name, g.changed(func(a map[string]any) { delete(a, required) })},
		"wrong type":        {g.name, g.changed(func(a map[string]any) { a[required] = map[string]any{"no": []any{nil}} })},
		"extra argument":    {g.name, g.changed(func(a map[string]any) { a["surely_not"] = 1 })},
		"another tool name": {other.name, encoded(g.args)},
	}
}

// broken lists the ways in which models break the JSON of valid arguments.
var broken = []struct {
	name string
	how  func(string) string
}{
	{"cut in half", func(s string) string { return s[:len(s)/2] }},
	{"fence", func(s string) string { return "```json\n" + s + "\n```" }},
	{"trailing comma", func(s string) string { return strings.TrimSuffix(s, "}") + ",}" }},
	{"no closing brace", func(s string) string { return strings.TrimSuffix(s, "}") }},
	{"as a string", encodedString},
	{"doubled", func(s string) string { return s + s }},
	{"prose around", func(s string) string { return "Here are the arguments: " + s + " I hope this helps." }},
	{"raw newlines in strings", func(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }},
	{"python", func(s string) string {
		return strings.NewReplacer(":true", ":True", ":false", ":False", ":null", ":None").Replace(s)
	}},
	{"not JSON at all", func(string) string { return "the first invoice, please" }},
	{"an array", func(s string) string { return "[" + s + "]" }},
	{"two objects", func(s string) string { return s + `{"another": 1}` }},
}

func encodedString(s string) string { return encoded(s) }

// bench offers the gadgets as skills and records their calls.
type bench struct {
	gadgets []gadget
	skills  []skill.Skill
	made    []made
}

type made struct{ name, arguments string }

func newBench(n int, seed uint64) *bench {
	b := &bench{gadgets: gadgets(n, seed)}
	for i, g := range b.gadgets {
		k := skill.Skill{Name: g.name, Description: "does " + g.name, Parameters: json.RawMessage(encoded(g.schema)), Scope: skill.External}
		if i%2 == 0 {
			k.Run = func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) { return b.use(g.name, c) }
		} else {
			k.Do = func(_ context.Context, c skill.Call) (any, error) { return b.use(g.name, c) }
		}
		b.skills = append(b.skills, k)
	}
	return b
}

func (b *bench) use(name string, c skill.Call) (any, error) {
	b.made = append(b.made, made{name, string(c.Arguments)})
	return map[string]bool{"ok": true}, nil
}

// mustHaveMade checks that the valid call was made once with its arguments, and that no other call
// was made.
func (b *bench) mustHaveMade(t testing.TB, what string, g gadget) {
	t.Helper()
	if len(b.made) != 1 || b.made[0].name != g.name {
		t.Errorf("%s: made %v, want one call of %s", what, b.made, g.name)
	} else if diff := cmp.Diff(decode(t, encoded(g.args)), decode(t, b.made[0].arguments)); diff != "" {
		t.Errorf("%s: %s got other arguments (-want +got):\n%s", what, g.name, diff)
	}
	b.made = nil
}

func decode(t testing.TB, raw string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestScriptedRunsOfBadCalls: whatever mistake a model makes, no unintended call is made, and in
// the end the model makes the intended one.
func TestScriptedRunsOfBadCalls(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		tools := 100
		if testing.Short() || w.Engine != dbtest.OnSQLite {
			tools = 5 // the loop is the same on every engine
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBench(tools, seed)
		runs, repaired := 0, 0
		for i, g := range b.gadgets {
			right := llmtest.Call(g.name, encoded(g.args))
			job := func() reason.Job { runs++; return w.job(t, b.skills...) }

			w.run(t, llmtest.Script(t, right, llmtest.Say("done")), job())
			b.mustHaveMade(t, "true call", g)

			notes := map[string]string{}
			for what, wrong := range wrongs(b.gadgets, i, r) {
				j := job()
				out := w.run(t, llmtest.Script(t, llmtest.Call(wrong[0], wrong[1]), right, llmtest.Say("done")), j)
				b.mustHaveMade(t, what, g)
				if out.Status != execution.Completed {
					t.Errorf("%s of %s ended %s: %s", what, g.name, out.Status, out.Reason)
				}
				notes[what] = w.results(t, j)[0].Content

				stubborn := w.run(t, llmtest.Script(t, llmtest.Call(wrong[0], wrong[1]), llmtest.Call(wrong[0], wrong[1]), llmtest.Call(wrong[0], wrong[1])), job())
				if stubborn.Status != execution.Stalled || stubborn.Summary == "" || len(b.made) > 0 {
					t.Errorf("%s of %s again and again ended %s (%q) and made %v", what, g.name, stubborn.Status, stubborn.Summary, b.made)
				}
			}
			differ(t, notes)

			way := broken[i%len(broken)]
			text := way.how(encoded(g.args))
			j := job()
			first := func(req llm.Request) (llm.Response, error) {
				resp, err := llmtest.Call(g.name, text)(req)
				if way.name == "cut in half" { // the answer reached its limit, and providers report that
					resp.StopReason = llm.StopMaxTokens
				}
				return resp, err
			}
			model := llmtest.Script(t, first, func(req llm.Request) (llm.Response, error) {
				if last := req.Messages[len(req.Messages)-1]; last.Results[0].IsError {
					return right(req)
				}
				repaired++
				return llmtest.Say("done")(req)
			}, llmtest.Say("done"))
			out := w.run(t, model, j)
			b.mustHaveMade(t, "broken JSON, "+way.name, g)
			if out.Status != execution.Completed {
				t.Errorf("broken JSON (%s) of %s ended %s: %s", way.name, g.name, out.Status, out.Reason)
			}
		}
		t.Logf("%d runs; %d of %d broken texts were repaired", runs, repaired, len(b.gadgets))
		if tools == 100 && (runs < 600 || repaired < 50) {
			t.Errorf("only %d runs and %d repairs", runs, repaired)
		}
	})
}

// TestTheLastCallOfAnAnswerThatWasCutOffIsNotMade: the last call is not made, even if its arguments
// look complete, because a provider may omit missing parts. The calls before it are made.
func TestTheLastCallOfAnAnswerThatWasCutOffIsNotMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		b := &bench{}
		for i, scope := range []string{"database", "outside"} {
			k := skill.Skill{Name: "purge_" + scope, Scope: skill.External, Parameters: json.RawMessage(`{"type": "object", "properties": {"before": {"type": "string"}}}`)}
			if i == 0 {
				k.Run = func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) { return b.use(k.Name, c) }
			} else {
				k.Do = func(_ context.Context, c skill.Call) (any, error) { return b.use(k.Name, c) }
			}
			b.skills = append(b.skills, k)
		}
		for _, k := range b.skills {
			for _, stop := range []llm.StopReason{llm.StopMaxTokens, llm.StopRefusal} {
				for _, arguments := range []string{``, ` `, `{}`, `{ }`, `{`, `{"bef`, `{"before": "20`, `{"before": "2020"}`} {
					cut := func(req llm.Request) (llm.Response, error) {
						resp, err := llmtest.Call(k.Name, `{"before": "first"}`, k.Name, arguments)(req)
						resp.StopReason = stop
						return resp, err
					}
					job := w.job(t, b.skills...)
					out := w.run(t, llmtest.Script(t, cut, llmtest.Call(k.Name, `{"before": "again"}`), llmtest.Say("done")), job)
					want := []made{{k.Name, `{"before":"first"}`}, {k.Name, `{"before":"again"}`}}
					if r := w.results(t, job); out.Status != execution.Completed || !slices.Equal(b.made, want) || !r[1].IsError || !strings.Contains(r[1].Content, "cut off") {
						t.Errorf("%s after %q of %s: made %v, told %+v, ended %s", stop, arguments, k.Name, b.made, r, out.Status)
					}
					b.made = nil
				}
			}
		}
	})
}

// differ checks that the model gets different texts for an unknown name and for bad arguments.
func differ(t testing.TB, notes map[string]string) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(notes)) {
		unknown := strings.Contains(notes[what], "does not exist")
		if want := what == "made-up name"; unknown != want {
			t.Errorf("%s is answered by %q", what, notes[what])
		}
	}
}
