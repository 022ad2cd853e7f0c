package skill_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

func TestDefineReadsDescriptionAndSchema(t *testing.T) {
	texts := fstest.MapFS{"look.md": {Data: []byte("Looks around.\nTwice.\n\n```json\n{\"type\": \"object\"}\n```\n")}}
	k, err := skill.Define(texts, "look", skill.Skill{})
	if err != nil {
		t.Fatal(err)
	}
	if k.Name != "look" || k.Description != "Looks around.\nTwice." || k.Scope != skill.Internal {
		t.Errorf("got %+v", k)
	}
	if got := strings.TrimSpace(string(k.Parameters)); got != `{"type": "object"}` {
		t.Errorf("the schema is %s", got)
	}
	kept, err := skill.Define(texts, "look", skill.Skill{Scope: skill.Both})
	if err != nil || kept.Scope != skill.Both {
		t.Errorf("a given scope became %s (%v)", kept.Scope, err)
	}
}

func TestDefineRefusesTextWithoutSchema(t *testing.T) {
	for name, text := range map[string]string{
		"no block":           "Looks around.",
		"open block":         "Looks around.\n```json\n{}",
		"broken JSON":        "Looks around.\n```json\n{\n```\n",
		"text behind":        "Looks around.\n```json\n{}\n```\nAnd more.",
		"another language":   "Looks around.\n```yaml\n{}\n```\n",
		"two blocks of JSON": "Looks around.\n```json\n{}\n```\n```json\n{}\n```\n",
	} {
		if _, err := skill.Define(fstest.MapFS{"look.md": {Data: []byte(text)}}, "look", skill.Skill{}); err == nil {
			t.Errorf("%s was accepted", name)
		} else if !strings.Contains(err.Error(), "look.md") {
			t.Errorf("%s: %v does not name the file", name, err)
		}
	}
	if _, err := skill.Define(fstest.MapFS{}, "look", skill.Skill{}); err == nil {
		t.Error("a skill without a text was accepted")
	}
}

func TestSetRefusesTwoOfOneName(t *testing.T) {
	_, err := skill.NewSet(named("look"), named("walk"), named("look"))
	if err == nil || !strings.Contains(err.Error(), "look") {
		t.Errorf("got %v", err)
	}
}

func TestSoundNamesEveryBrokenSchema(t *testing.T) {
	schema := func(name, text string) skill.Skill { return skill.Skill{Name: name, Parameters: []byte(text)} }
	set := newSet(t, schema("empty", ``), schema("broken", `{`), schema("wrong", `{"type": "objekt"}`), named("right"),
		schema("elsewhere", `{"$ref": "https://example.com/schema.json"}`), schema("file", `{"$ref": "file:///etc/passwd"}`))
	err := set.Sound()
	if err == nil {
		t.Fatal("broken schemas were called sound")
	}
	for _, name := range []string{"empty", "broken", "wrong", "elsewhere", "file"} {
		if !strings.Contains(err.Error(), "schema of skill "+name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if !strings.Contains(err.Error(), "skill right needs either Run or Do") {
		t.Errorf("a skill that does nothing is sound: %v", err)
	}
	if strings.Contains(err.Error(), "schema of skill right") {
		t.Errorf("a sound schema is named in: %v", err)
	}
	k, _ := set.Find("broken")
	if v := k.Check(t.Context(), []byte(`{}`)); len(v) != 1 {
		t.Errorf("a call of a broken skill has the violations %v", v)
	}
}

func TestFindMatchesCaseAndSeparators(t *testing.T) {
	set := newSet(t, named("save_memory"), named("getTask"), named("plan-it"), named("plan_it"))
	for asked, want := range map[string]string{
		"save_memory": "save_memory", "saveMemory": "save_memory", "SAVE-MEMORY": "save_memory", "save memory": "save_memory",
		"Save.Memory": "save_memory", "get_task": "getTask", "plan-it": "plan-it", "plan_it": "plan_it",
		"planIt": "", // two names are equally near
		"save":   "", "save_memories": "", "": "", "___": "", "ſave_memory": "",
	} {
		k, ok := set.Find(asked)
		if ok != (want != "") || ok && k.Name != want {
			t.Errorf("%q finds %v, want %q", asked, k, want)
		}
	}
}

func TestNearestBeginsWithTheMostSimilar(t *testing.T) {
	set := newSet(t, named("query_activity"), named("save_memory"), named("set_objective"), named("search_memory"))
	for asked, want := range map[string]string{
		"save_memmory": "save_memory", "searchMemories": "search_memory", "query_activities": "query_activity",
		"SetObjectives": "set_objective",
	} {
		got := set.Nearest(asked)
		if got[0] != want {
			t.Errorf("nearest to %q are %v, want %s first", asked, got, want)
		}
		if len(got) != 4 {
			t.Errorf("nearest to %q lists %v", asked, got)
		}
	}
	if got := newSet(t).Nearest("x"); len(got) != 0 {
		t.Errorf("an empty set is near to %v", got)
	}
}

// TestNearestToAVeryLongName: of a name that a model invented, no more is compared than the longest name has.
func TestNearestToAVeryLongName(t *testing.T) {
	const size = 1 << 20
	set := newSet(t, named("query_activity"), named("save_memory"), named("set_objective"), named("search_memory"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := set.Nearest("save_memory" + strings.Repeat("y", size))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; got[0] != "save_memory" || used > 8*size {
		t.Errorf("%s is first, at a cost of %d times the name", got[0], used/size)
	}
}

func TestOnlyAndToolsKeepOrder(t *testing.T) {
	set := newSet(t, named("a"), named("b"), named("c"))
	if got := set.Only("c", "a", "z").Names(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("only a and c is %v", got)
	}
	var tools []string
	for _, tool := range set.Tools() {
		tools = append(tools, tool.Name)
	}
	if !slices.Equal(tools, set.Names()) {
		t.Errorf("the tools are %v", tools)
	}
}

func TestRefusalIsTheReason(t *testing.T) {
	err := skill.Refuse("no step %d", 3)
	if r, ok := errors.AsType[*skill.RefusalError](err); !ok || r.Reason != "no step 3" || err.Error() != r.Reason {
		t.Errorf("got %v", err)
	}
}

// builtins returns the built-in skills of the product.
func builtins(t testing.TB) *skill.Set {
	t.Helper()
	all, err1 := objective.Skills(&objective.Store{})
	more, err2 := memory.Skills(&memory.Store{})
	query, err3 := skill.QueryActivity(&activity.Log{}, time.Now)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return newSet(t, append(append(all, more...), query)...)
}

func TestBuiltinSkillsAreSound(t *testing.T) {
	set := builtins(t)
	if err := set.Sound(); err != nil {
		t.Fatal(err)
	}
	for _, tool := range set.Tools() {
		if tool.Description == "" {
			t.Errorf("%s says nothing about itself", tool.Name)
		}
		var schema struct {
			Type       string         `json:"type"`
			Additional *bool          `json:"additionalProperties"`
			Required   []string       `json:"required"`
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Type != "object" || schema.Additional == nil || *schema.Additional {
			t.Errorf("%s takes more than its parameters", tool.Name)
		}
		for _, name := range schema.Required {
			if schema.Properties[name] == nil {
				t.Errorf("%s requires %s, which is not a parameter", tool.Name, name)
			}
		}
	}
}

func TestBuiltinSkillsBoundTheirTexts(t *testing.T) {
	set := builtins(t)
	id := "01234567-89ab-7def-8123-456789abcdef"
	long := strings.Repeat("x", 8001)
	for name, arguments := range map[string]any{
		"save_memory":        map[string]any{"category": "fact", "content": long},
		"set_objective":      map[string]any{"title": "t", "description": long},
		"advance_plan":       map[string]any{"objectiveId": id, "step": 1, "result": long},
		"complete_objective": map[string]any{"objectiveId": id, "summary": long},
		"plan_objective":     map[string]any{"objectiveId": id, "steps": []any{map[string]any{"title": long}}},
		"query_activity":     map[string]any{"limit": 51},
	} {
		k, ok := set.Find(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		if v := k.Check(t.Context(), raw); len(v) != 1 {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestBuiltinSkillsWantRealIDs(t *testing.T) {
	set := builtins(t)
	for name, arguments := range map[string]string{
		"advance_plan":       `{"objectiveId": "obj-1", "step": 1, "result": "r"}`,
		"complete_objective": `{"objectiveId": "", "summary": "s"}`,
		"plan_objective":     `{"objectiveId": "{01234567-89ab-7def-8123-456789abcdef}", "steps": [{"title": "t"}]}`,
	} {
		k, _ := set.Find(name)
		if v := k.Check(t.Context(), []byte(arguments)); len(v) != 1 || v[0].Path != "/objectiveId" {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestPlanSchemaAgreesWithTheLongestPlan(t *testing.T) {
	set := builtins(t)
	plan, _ := set.Find("plan_objective")
	steps := func(n int) []byte {
		return []byte(`{"objectiveId": "01234567-89ab-7def-8123-456789abcdef", "steps": [` +
			strings.TrimSuffix(strings.Repeat(`{"title": "t"},`, n), ",") + `]}`)
	}
	if v := plan.Check(t.Context(), steps(objective.MaxSteps)); len(v) > 0 {
		t.Errorf("the longest plan: %v", v)
	}
	if v := plan.Check(t.Context(), steps(objective.MaxSteps+1)); len(v) != 1 {
		t.Errorf("a plan that is too long: %v", v)
	}
	advance, _ := set.Find("advance_plan")
	last := `{"objectiveId": "01234567-89ab-7def-8123-456789abcdef", "step": 31, "result": "r"}`
	if v := advance.Check(t.Context(), []byte(last)); len(v) != 1 || v[0].Path != "/step" {
		t.Errorf("a step no plan can have: %v", v)
	}
}
