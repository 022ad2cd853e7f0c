package reason_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// output is the output of a model call, or of a refused call, in the activity log.
type output struct {
	Step                 int
	Text, Stop, Purpose  string
	Calls                []string
	Class, Refused, Call string
}

func outputOf(t testing.TB, e activity.Entry) (o output) {
	t.Helper()
	if err := json.Unmarshal(e.Output, &o); err != nil {
		t.Fatalf("%s: %v in %s", e.Skill, err, e.Output)
	}
	return o
}

// said is Say with a text before the calls.
func said(text string, step llmtest.Step) llmtest.Step {
	return func(req llm.Request) (llm.Response, error) {
		resp, err := step(req)
		resp.Text, resp.Usage.MicroUSD = text, 1500
		return resp, err
	}
}

func TestTheLogTellsModelCallsAndCallsThatCouldNotBeMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		out := w.run(t, llmtest.Script(t,
			said("I look first.", llmtest.Call("echo_back", `{"txt": "x"}`)),
			llmtest.Call("no_such_tool", `{"a": 1}`),
			llmtest.Call("Echo-Back", `{"text": "x"}`),
			llmtest.Say("Done."),
		), job)
		w.close(t, job, out)
		var told []string
		used := int64(0)
		for _, e := range w.story(t, job) {
			o := outputOf(t, e)
			switch e.Skill {
			case activity.ModelCall:
				told = append(told, fmt.Sprintf("%d %s %q asks for %q: %s", o.Step, e.Model, o.Text, o.Calls, e.Status))
				if e.Usage == nil || e.Execution != job.Execution.ID || e.Attempt != 1 || e.Duration < 0 {
					t.Errorf("a model call is told as %+v", e)
					continue
				}
				used += e.Usage.TotalTokens
			default:
				told = append(told, fmt.Sprintf("%s %s %s %s: %.30s", e.Skill, e.Status, o.Class, o.Refused, e.Error))
				if e.Usage != nil || e.CostUSD != nil {
					t.Errorf("%s has used %+v", e.Skill, e.Usage)
				}
			}
		}
		want := []string{
			`1 script "I look first." asks for ["echo_back"]: success`,
			`echo_back error input arguments: The arguments of echo_back do `,
			`2 script "" asks for ["no_such_tool"]: success`,
			`(unknown) error input unknown_tool: The tool "no_such_tool" does n`,
			`3 script "" asks for ["Echo-Back"]: success`,
			`echo_back success  : `,
			`4 script "Done." asks for []: success`,
		}
		if !slices.Equal(told, want) {
			t.Errorf("the log says\n%s", strings.Join(told, "\n"))
		}
		if used != int64(out.Usage.TotalTokens()) || used == 0 {
			t.Errorf("%d tokens are told, %d were used", used, out.Usage.TotalTokens())
		}
		first := w.story(t, job)[0]
		if first.CostUSD == nil || *first.CostUSD != 0.0015 {
			t.Errorf("the first call cost %v", first.CostUSD)
		}
	})
}

// TestTheLogSaysWhyACallWasNotMade covers the reasons other than the schema.
func TestTheLogSaysWhyACallWasNotMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		cut := func(req llm.Request) (llm.Response, error) {
			resp, err := llmtest.Call("echo_back", `{"text": "x"}`)(req)
			resp.StopReason = llm.StopMaxTokens
			return resp, err
		}
		asks := echo()
		asks.Name, asks.RequiresApproval = "asks", true
		for want, step := range map[string]llmtest.Step{
			"switched_off policy off":        llmtest.Call("off", `{}`),
			"approval policy asks":           llmtest.Call("asks", `{"text": "x"}`),
			"cut_off input echo_back":        cut,
			"arguments input echo_back":      llmtest.Call("echo_back", `{"text": `),
			"unknown_tool input (unknown)":   llmtest.Call("(model)", `{"text": "x"}`),
			"arguments input run_skill":      llmtest.Call("run_skill", `{}`),
			"unknown_tool input (unknown) 2": llmtest.Call("run_skill", `{"skill": "nothing"}`),
		} {
			job := w.job(t, own(t, echo(), asks, does("off", anything, fineSkill))...)
			r := w.runner(llmtest.Script(t, step, llmtest.Say("done")))
			r.Switches = switches("skill:off")
			if _, err := r.Run(job.Under(t.Context()), job); err != nil {
				t.Fatal(err)
			}
			line := w.story(t, job)[1]
			o := outputOf(t, line)
			if got := fmt.Sprintf("%s %s %s", o.Refused, o.Class, line.Skill); !strings.HasPrefix(want, got) || line.Error == "" || o.Call != "1.1" {
				t.Errorf("the log says %q (%s), want %q", got, line.Error, want)
			}
		}
	})
}

// TestAFailedModelCallIsTold: a failed model call is logged, whether the run ends with it or
// continues.
func TestAFailedModelCallIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t)
		fails := func(llm.Request) (llm.Response, error) {
			return llm.Response{Usage: llm.Usage{CompletionTokens: 7}},
				&llm.Error{Class: llm.ClassOverloaded, Provider: "scripted", Err: errors.New("canary-4711")}
		}
		out := w.run(t, llmtest.Script(t, fails), job)
		w.close(t, job, out)
		story := w.story(t, job)
		if len(story) != 1 || story[0].Status != activity.Error || story[0].Error != "the model failed: overloaded" ||
			outputOf(t, story[0]).Class != "overloaded" || story[0].Usage == nil || story[0].Usage.TotalTokens != 7 {
			t.Errorf("the log says %+v", story)
		}
		out = w.run(t, llmtest.Script(t, llmtest.Say("done")), job)
		w.close(t, job, out)
		if story = w.story(t, job); len(story) != 2 || story[1].Status != activity.Success {
			t.Errorf("the log says %+v", story)
		}
	})
}

// TestALostHoldTellsNothing: if the hold is lost, the activity of a model call is rolled back with
// its entry.
func TestALostHoldTellsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t)
		lost := func(req llm.Request) (llm.Response, error) {
			w.release(t, job.Hold)
			return llmtest.Say("too late")(req)
		}
		_, err := w.runner(llmtest.Script(t, lost)).Run(job.Under(t.Context()), job)
		if !errors.Is(err, lane.ErrLost) {
			t.Fatalf("got %v", err)
		}
		if story := w.story(t, job); len(story) != 0 {
			t.Errorf("the log says %+v", story)
		}
	})
}
