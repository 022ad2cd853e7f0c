package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// exported has the world's spans go to a receiver. The returned function flushes them and returns the spans.
func (w *world) exported(t *testing.T) func() []spantest.Span {
	t.Helper()
	r := spantest.New(t)
	x := span.New(span.Options{Endpoint: r.URL, Service: "lanekeeper-heartbeat", Limit: time.Minute})
	t.Cleanup(x.Close)
	w.Reason.Spans = x
	return func() []spantest.Span {
		x.Flush(t.Context())
		return r.Spans()
	}
}

// A beat is one tree of spans: the beat, the pieces of work below it, and the calls of models and skills
// below those.
func TestTheSpansOfABeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		spans := w.exported(t)
		w.plan(t, w.addObjective(t, "planned", 5), "close")
		w.addObjective(t, "fresh", 9)
		r := w.beat(t, slot(1))
		all := spans()
		want := "invoke_agent flowpilot"
		for _, calls := range []string{"plan_objective", "advance_plan", "advance_plan\n    execute_tool complete_objective"} {
			want += "\n  invoke_agent flowpilot\n    chat pilot\n    execute_tool " + calls + "\n    chat pilot"
		}
		if got := spantest.Outline(t, all); got != want {
			t.Errorf("the tree is\n%s\nwant\n%s", got, want)
		}
		var tokens int64
		for _, s := range all {
			in, _ := s.Attributes["gen_ai.usage.input_tokens"].(int64)
			out, _ := s.Attributes["gen_ai.usage.output_tokens"].(int64)
			tokens += in + out
			a := s.Attributes
			for key, want := range map[string]any{
				"lanekeeper.trace_id": r.TraceID, "lanekeeper.workspace_id": string(w.Workspace), "lanekeeper.surface": "heartbeat",
				"lanekeeper.attempt": int64(1),
			} {
				if a[key] != want {
					t.Errorf("%s of %s is %v, want %v", key, s.Name, a[key], want)
				}
			}
			if a["lanekeeper.execution_id"] == nil || s.Failed {
				t.Errorf("%s has %v", s.Name, a)
			}
			switch a["gen_ai.operation.name"] {
			case "invoke_agent":
				if s.Kind != 1 || a["gen_ai.agent.name"] != "flowpilot" || a["lanekeeper.status"] != "completed" || a["lanekeeper.unit"] == nil {
					t.Errorf("%s has %v", s.Name, a)
				}
			case "chat":
				named := a["gen_ai.provider.name"] == "pilot" && a["gen_ai.request.model"] == "pilot" && a["gen_ai.response.model"] == "script"
				if s.Kind != 3 || !named || a["gen_ai.response.finish_reasons"] == nil || in == 0 || out == 0 {
					t.Errorf("%s has %v", s.Name, a)
				}
			case "execute_tool":
				if s.Kind != 1 || "execute_tool "+a["gen_ai.tool.name"].(string) != s.Name {
					t.Errorf("%s has %v", s.Name, a)
				}
			default:
				t.Errorf("%s has %v", s.Name, a)
			}
		}
		if tokens != r.Tokens {
			t.Errorf("the spans count %d tokens, the report %d", tokens, r.Tokens)
		}
	})
}

// A beat without work has one span.
func TestTheSpanOfAnIdleBeat(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, pilot(obedient))
		spans := w.exported(t)
		w.beat(t, slot(1))
		if all := spans(); len(all) != 1 || all[0].Attributes["lanekeeper.status"] != string(heartbeat.Idle) || all[0].Parent != "" {
			t.Errorf("it is %+v", all)
		}
	})
}

// Spans say that work has failed by the class of its error. They hold neither inputs, outputs, prompts and
// answers nor messages of errors.
func TestSpansHoldNoContent(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		const canary = "canary-7f3a"
		leaks := skill.Skill{
			Name: "leaks", Parameters: []byte(`{"type": "object", "properties": {"x": {"type": "string"}}}`), Scope: skill.Internal,
			Do: func(context.Context, skill.Call) (any, error) { return map[string]string{"x": canary}, nil },
		}
		refuses := leaks
		refuses.Name = "refuses"
		refuses.Do = func(context.Context, skill.Call) (any, error) {
			return nil, &skill.RefusalError{Reason: canary, Class: skill.Theirs}
		}
		fails := leaks
		fails.Name = "fails"
		fails.Do = func(context.Context, skill.Call) (any, error) { return nil, errors.New(canary) }
		arguments := fmt.Sprintf(`{"x": %q}`, canary)
		w := newWorld(t, e, llmtest.Script(t,
			llmtest.Call("leaks", arguments, "refuses", arguments, "fails", arguments, canary, arguments),
			func(llm.Request) (llm.Response, error) {
				return llm.Response{}, &llm.Error{Class: llm.ClassBilling, Provider: canary, Err: errors.New(canary)}
			},
		), leaks, refuses, fails)
		spans := w.exported(t)
		w.plan(t, w.addObjective(t, canary, 5), canary)
		w.beat(t, slot(1))
		failed := map[string]any{}
		for _, s := range spans() {
			if strings.Contains(fmt.Sprintf("%+v", s), canary) {
				t.Errorf("a span holds the canary: %+v", s)
			}
			if s.Failed != (s.Attributes["error.type"] != nil) {
				t.Errorf("%s has failed: %t, as %v", s.Name, s.Failed, s.Attributes["error.type"])
			}
			if s.Failed {
				failed[s.Name] = s.Attributes["error.type"]
			}
		}
		want := map[string]any{"execute_tool refuses": "theirs", "execute_tool fails": "ours", "chat script": "billing"}
		if !reflect.DeepEqual(failed, want) {
			t.Errorf("failed are %v, want %v", failed, want)
		}
	})
}

// A piece of work that is cut off and resumed has two spans. The second one hangs below the first.
func TestTheSpansOfResumedWork(t *testing.T) {
	onEach(t, func(t *testing.T, e dbtest.Env) {
		calls := 0
		w := newWorld(t, e, pilot(func(ctx context.Context, tk task) (llmtest.Step, error) {
			if calls++; calls == 1 {
				return nil, &llm.Error{Class: llm.ClassOverloaded, Provider: "script", Err: errors.New("later")}
			}
			return obedient(ctx, tk)
		}))
		spans := w.exported(t)
		w.plan(t, w.addObjective(t, "planned", 5), "close")
		w.beat(t, slot(1))
		w.Skew.Advance(time.Hour)
		w.beat(t, slot(3))
		runs := map[string][]spantest.Span{}
		for _, s := range spans() {
			if s.Attributes["gen_ai.operation.name"] == "invoke_agent" && s.Attributes["lanekeeper.unit"] != "beat" {
				id := s.Attributes["lanekeeper.execution_id"].(string)
				runs[id] = append(runs[id], s)
			}
		}
		if len(runs) != 1 {
			t.Fatalf("there are %d executions: %+v", len(runs), runs)
		}
		for _, two := range runs {
			if len(two) != 2 {
				t.Fatalf("the runs are %+v", two)
			}
			first, second := two[0], two[1]
			if first.Attributes["lanekeeper.status"] != "parked" || second.Attributes["lanekeeper.status"] != "completed" ||
				second.Attributes["lanekeeper.attempt"] != int64(2) || second.Parent != first.ID || second.Trace != first.Trace {
				t.Errorf("the runs are %+v", two)
			}
		}
	})
}
