package skill_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Journals, plans, approvals and automations of an earlier release hold the arguments of built-in
// skills in snake case, and the q of search_memory as words.
func TestArgumentsOfAnEarlierReleaseAreRead(t *testing.T) {
	set := builtins(t)
	const id = "01234567-89ab-7def-8123-456789abcdef"
	for name, of := range map[string]struct{ before, now string }{
		"search_memory":      {`{"words": "ice_cream", "limit": 3}`, `{"limit":3,"q":"ice_cream"}`},
		"forget_memory":      {`{"memory_id": "` + id + `"}`, `{"memoryId":"` + id + `"}`},
		"query_activity":     {`{"trace_id": "hb_1"}`, `{"traceId":"hb_1"}`},
		"set_objective":      {`{"title": "a_b", "done_criterion": "c_d"}`, `{"doneCriterion":"c_d","title":"a_b"}`},
		"complete_objective": {`{"objective_id": "` + id + `", "summary": "s"}`, `{"objectiveId":"` + id + `","summary":"s"}`},
		"plan_objective": {
			`{"objective_id": "` + id + `", "steps": [{"title": "t", "inputs": {"done_criterion": 1.50}, "done_criterion": "d"}]}`,
			`{"objectiveId":"` + id + `","steps":[{"doneCriterion":"d","inputs":{"done_criterion":1.50},"title":"t"}]}`,
		},
	} {
		k, ok := set.Find(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		if wrong := k.Check(t.Context(), json.RawMessage(of.before)); len(wrong) > 0 {
			t.Errorf("%s refuses %s: %v", name, of.before, wrong)
		}
		got := ""
		k.Run = func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
			got = string(c.Arguments)
			return "done", nil
		}
		if _, _, err := k.Invoke(t.Context(), time.Minute, lane.Tx{}, skill.Call{Arguments: json.RawMessage(of.before)}); err != nil || got != of.now {
			t.Errorf("%s gets %s, want %s (%v)", name, got, of.now, err)
		}
		k.Undo = func(_ context.Context, _ *db.Tx, arguments, result json.RawMessage) (bool, error) {
			got = string(arguments) + string(result)
			return true, nil
		}
		if done, err := k.TakeBack(t.Context(), nil, json.RawMessage(of.before), json.RawMessage(`{"memory_id":"m_1"}`)); !done || err != nil || got != of.now+`{"memoryId":"m_1"}` {
			t.Errorf("%s takes back %s (%v)", name, got, err)
		}
	}
}

func TestArgumentsUnderBothNamesAreRefused(t *testing.T) {
	k, _ := builtins(t).Find("search_memory")
	if wrong := k.Check(t.Context(), json.RawMessage(`{"words": "a", "q": "b"}`)); len(wrong) != 1 {
		t.Errorf("they are taken: %v", wrong)
	}
}

func TestOthersNamesStayAsTheyAre(t *testing.T) {
	own := skill.Skill{Name: "own", Kind: skill.HTTP, Parameters: json.RawMessage(`{"type":"object","properties":{"memoryId":{}},"additionalProperties":false}`)}
	own.Run = func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, nil } //nolint:nilnil // it brings nothing
	set, err := skill.NewSet(own)
	if err != nil {
		t.Fatal(err)
	}
	if k, _ := set.Find("own"); len(k.Check(t.Context(), json.RawMessage(`{"memory_id": "x"}`))) != 1 {
		t.Error("the argument of a skill of the operator's was given another name")
	}
}
