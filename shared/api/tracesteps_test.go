package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

type toldStep struct {
	ExecutionID, Kind, Status, Call, System string
	Step                                    int
	Messages                                []struct {
		Role, Text string
		Calls      []struct{ Name, Arguments string }
		Results    []struct {
			Name, Content string
			IsError       bool
		}
	}
}

// The trace lists a call with a wrong argument and a call of an unknown tool. On request it also
// has the prompt and every message. It hides everything that looks like a secret.
func TestTheTraceTellsAll(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
		said := func(text string, step llmtest.Step) llmtest.Step {
			return func(req llm.Request) (llm.Response, error) {
				resp, err := step(req)
				resp.Text = text
				return resp, err
			}
		}
		var objectives *objective.Store
		w = newWorld(t, w.Env, func(d *api.Deps) {
			h, o := realBeat(t, d)
			h.Reason.Model = llmtest.Script(t,
				said("I plan it. "+token, llmtest.Call("plan_objective", `{"wrong_field": 1}`)),
				llmtest.Call("no_such_tool", `{}`),
				llmtest.Say("I give up."))
			objectives, d.Beat = o, h.Run
		})
		var b db.Batch
		objectives.Create(&b, objective.Objective{Title: "Write a welcome text", Priority: 5, DoneCriterion: "it is there", CreatedBy: "test"})
		if err := w.Env.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		var done struct{ TraceID string }
		w.must(t, 200, http.MethodPost, beat, `{"wait":true}`, &done)
		var plain struct {
			Activities []item
			Executions []struct {
				Title         string
				Input, Result map[string]any
			}
			Steps []toldStep
		}
		path := "/api/v1/traces/" + done.TraceID
		w.must(t, 200, http.MethodGet, path, "", &plain)
		for _, e := range plain.Executions {
			if in := snakes(e.Result); len(in) > 0 {
				t.Errorf("the result of %q has names in snake case: %q", e.Title, in)
			}
		}
		var told []string
		for _, a := range plain.Activities {
			if !strings.HasPrefix(a.SkillName, "heartbeat") {
				told = append(told, fmt.Sprint(a.SkillName, " ", a.Status, " ", a.Output["refused"]))
			}
			for _, phase := range phasesOf(a) {
				if _, snake := phase["model_calls"]; snake || phase["modelCalls"] == nil {
					t.Errorf("a phase is told as %v", phase)
				}
			}
		}
		want := []string{
			"(model) success <nil>", "plan_objective error arguments",
			"(model) success <nil>", "(unknown) error unknown_tool", "(model) success <nil>",
		}
		if len(told) < len(want) || !slices.Equal(told[:len(want)], want) {
			t.Errorf("the trace tells %q", told)
		}
		if plain.Steps != nil {
			t.Error("steps are told unasked")
		}
		if e := plain.Executions[1]; e.Title != "Write a welcome text" || e.Input["objectiveId"] == nil || e.Input["objective_id"] != nil {
			t.Errorf("the execution is %+v", e)
		}
		var full struct{ Steps []toldStep }
		got := w.must(t, 200, http.MethodGet, path+"?include=steps", "", &full)
		if len(full.Steps) < 6 {
			t.Fatalf("steps: %+v", full.Steps)
		}
		first, answer, refused := full.Steps[0], full.Steps[1], full.Steps[2]
		if first.Kind != "input" || first.System == "" || len(first.Messages) == 0 || !strings.Contains(first.Messages[0].Text, "welcome text") {
			t.Errorf("it begins with %+v", first)
		}
		if answer.Kind != "model" || answer.Step != 1 || !strings.HasPrefix(answer.Messages[0].Text, "I plan it.") ||
			answer.Messages[0].Calls[0].Name != "plan_objective" {
			t.Errorf("the answer is %+v", answer)
		}
		if refused.Call != "1.1" || refused.Status != "failed" || !refused.Messages[0].Results[0].IsError {
			t.Errorf("the result is %+v", refused)
		}
		if strings.Contains(string(got.body), token) {
			t.Error("a token is told")
		}
		w.refused(t, 422, "invalid", http.MethodGet, path+"?include=all", "")
	})
}

func phasesOf(a item) (phases []map[string]any) {
	list, _ := a.Output["phases"].([]any)
	for _, p := range list {
		phases = append(phases, p.(map[string]any))
	}
	return phases
}

// Steps that are too long together, and steps that this version cannot read, are omitted, and the
// trace is marked as truncated.
func TestTheStepsOfATraceMayBeTruncated(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		step := func(seq int, kind execution.Kind, body string) execution.Entry {
			return execution.Entry{Seq: seq, Step: seq, Kind: kind, Status: execution.Succeeded, Body: json.RawMessage(body)}
		}
		answer := func(seq int, text string) execution.Entry {
			return step(seq, execution.Model, `{"message":{"role":"assistant","text":"`+text+`"}}`)
		}
		for name, c := range map[string]struct {
			entries []execution.Entry
			want    []int
		}{
			"damaged":  {[]execution.Entry{answer(1, "a"), step(2, execution.Model, `{"message":[]}`), answer(3, "b")}, []int{1, 3}},
			"too long": {[]execution.Entry{answer(1, strings.Repeat("a", 3<<20)), answer(2, strings.Repeat("b", 2<<20)), answer(3, "c")}, []int{1}},
		} {
			e := execution.Execution{ID: ids(), Agent: "a", Surface: trace.Operate, Trace: w.Traces.New(trace.Operate), Subject: lane.Name(strings.ReplaceAll(name, " ", "-"))}
			h, err := w.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: e.Subject, Holder: "someone"})
			if err != nil {
				t.Fatal(err)
			}
			err = w.Lanes.InHold(t.Context(), h, func(_ context.Context, tx lane.Tx) error {
				err := w.Runs.Start(tx, e)
				for _, entry := range c.entries {
					err = errors.Join(err, w.Runs.Append(tx, e, entry))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var told struct {
				Steps     []toldStep
				Truncated bool
			}
			w.must(t, 200, http.MethodGet, "/api/v1/traces/"+string(e.Trace)+"?include=steps", "", &told)
			var got []int
			for _, s := range told.Steps {
				got = append(got, s.Step)
			}
			if !slices.Equal(got, c.want) || !told.Truncated {
				t.Errorf("%s: steps %v, truncated: %v", name, got, told.Truncated)
			}
		}
	})
}
