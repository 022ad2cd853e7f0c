package reason_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// useOnce runs a job in which the model calls one skill and ends.
func (w *world) useOnce(t testing.TB, k skill.Skill, arguments string) (string, bool, []activity.Entry) {
	t.Helper()
	job := w.job(t, k)
	job.SkillTimeout = 200 * time.Millisecond
	m := llmtest.Script(t, llmtest.Call(k.Name, arguments), llmtest.Say("done"))
	if out := w.run(t, m, job); out.Status != execution.Completed {
		t.Fatalf("got %+v", out)
	}
	r := w.results(t, job)[0]
	return r.Content, r.IsError, w.actions(t, job)
}

func TestARefusalUndoesWhatWasWrittenAndIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := w.remember("half", func() error { return skill.Refuse("only %d is left", 1) })
		content, failed, actions := w.useOnce(t, k, `{"why": "so"}`)
		if content != "only 1 is left" || !failed {
			t.Errorf("the model is told %q (error: %v)", content, failed)
		}
		if got := w.remembered(t); len(got) != 0 {
			t.Errorf("remembered %q", got)
		}
		if len(actions) != 1 || actions[0].Status != activity.Error || actions[0].Error != "only 1 is left" || !sameJSON(string(actions[0].Input), `{"why": "so"}`) {
			t.Errorf("the log says %+v", actions)
		}
		w.mustBeFree(t, lane.Memory(activity.Operator))
		content, failed, _ = w.useOnce(t, w.remember("whole", fine), `{}`)
		if failed || !sameJSON(content, `{"saved": true}`) || len(w.remembered(t)) != 1 {
			t.Errorf("afterwards the model is told %q, remembered %q", content, w.remembered(t))
		}
	})
}

func (w *world) mustBeFree(t testing.TB, name lane.Name) {
	t.Helper()
	i, err := w.lanes.Peek(t.Context(), w.Workspace, name)
	if err != nil && !errors.Is(err, db.ErrNoRows) || i.Held() {
		t.Errorf("lane %s is held: %+v (%v)", name, i, err)
	}
}

func TestAPanicIsThatCallsError(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := w.remember("throw_up", func() error { panic("at the disco") })
		content, failed, actions := w.useOnce(t, k, `{}`)
		if content != "the skill failed" || !failed || len(w.remembered(t)) != 0 {
			t.Errorf("the model is told %q", content)
		}
		if len(actions) != 1 || actions[0].Status != activity.Error || strings.Contains(actions[0].Error, "disco") {
			t.Errorf("the log says %+v", actions)
		}
		line := w.logged.line(t, "skill panicked")
		if line["panic"] != "at the disco" || line["skill"] != "throw_up" || !strings.Contains(line["stack"].(string), "skill_test.go") {
			t.Errorf("logged %v", line)
		}
		w.mustBeFree(t, lane.Memory(activity.Operator))
	})
}

// explosive panics when it is encoded as JSON.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

func TestAnythingOfASkillMayPanic(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		lanes := does("lanes", anything, nil)
		lanes.Lanes = func(skill.Call) []lane.Name { panic("which lanes?") }
		result := does("result", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return explosive{}, nil })
		missing := does("missing", anything, nil)
		for _, k := range []skill.Skill{lanes, result, missing} {
			if content, failed, _ := w.useOnce(t, k, `{}`); content != "the skill failed" || !failed {
				t.Errorf("%s: the model is told %q", k.Name, content)
			}
		}
	})
}

func TestAResultThatIsNoJSONIsThatCallsError(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, value := range map[string]any{"infinite": math.Inf(1), "channel": make(chan int), "broken": json.RawMessage(`{`)} {
			k := does(name, anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return value, nil })
			if content, failed, _ := w.useOnce(t, k, `{}`); !failed || !strings.Contains(content, "can't be written as JSON") {
				t.Errorf("%s: the model is told %q", name, content)
			}
		}
		k := does("nothing", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, nil })
		if content, failed, actions := w.useOnce(t, k, `{}`); failed || content != "null" || len(actions) != 1 {
			t.Errorf("of nothing the model is told %q", content)
		}
	})
}

func TestALongResultIsCut(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		text := strings.Repeat("ä", 100_000)
		k := does("long", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return text, nil })
		content, failed, _ := w.useOnce(t, k, `{}`)
		if failed || len(content) > 33<<10 || !strings.HasSuffix(content, "(cut: this is the beginning of 200002 bytes)") {
			t.Errorf("the model is told %d bytes that end in %q", len(content), content[len(content)-60:])
		}
		k = does("sorry", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, skill.Refuse("%s", text) })
		if content, failed, _ := w.useOnce(t, k, `{}`); !failed || len(content) > 33<<10 {
			t.Errorf("the model is told %d bytes", len(content))
		}
	})
}

func TestASkillThatTakesTooLongIsThatCallsError(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, fn := range map[string]func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error){
			"waits":        func(ctx context.Context, _ lane.Tx, _ skill.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
			"takes notice": func(ctx context.Context, _ lane.Tx, _ skill.Call) (any, error) { <-ctx.Done(); return "late", nil },
			"then queries": func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
				<-ctx.Done()
				w.log.Record(ctx, tx.Later(), activity.Entry{Agent: "a", Surface: c.Surface, Skill: "late", Status: activity.Success})
				_, err := w.log.ListIn(ctx, tx, activity.Filter{})
				return nil, err
			},
		} {
			content, failed, actions := w.useOnce(t, does("slow", anything, fn), `{}`)
			if !failed || content != "the skill took longer than 200ms" {
				t.Errorf("%s: the model is told %q", name, content)
			}
			if len(actions) != 1 || actions[0].Skill != "slow" || actions[0].Status != activity.Error || actions[0].Duration < 200*time.Millisecond {
				t.Errorf("%s: the log says %+v", name, actions)
			}
		}
	})
}

func TestABusyFurtherLaneIsARefusal(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		other := w.acquire(t, lane.Memory(activity.Operator))
		content, failed, actions := w.useOnce(t, w.remember("save", fine), `{}`)
		if !failed || !strings.Contains(content, "memory:flowpilot stayed busy") || len(actions) != 1 {
			t.Errorf("the model is told %q", content)
		}
		info, err := w.lanes.Peek(t.Context(), w.Workspace, other.Lane)
		if err != nil || info.WantedBy == "" {
			t.Errorf("its holder does not learn who waits: %+v (%v)", info, err)
		}
	})
}

func TestASkillRunsUnderItsLanes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var seen skill.Call
		k := does("look", anything, func(_ context.Context, tx lane.Tx, c skill.Call) (any, error) {
			seen = c
			return nil, errors.Join(tx.Proves(c.Subject), tx.Proves(lane.Memory(c.Agent)))
		})
		k.Lanes = func(c skill.Call) []lane.Name { return []lane.Name{c.Subject, lane.Memory(c.Agent), c.Subject} }
		job := w.job(t, k)
		m := llmtest.Script(t, llmtest.Call("look", `{"a": 1}`), llmtest.Say("done"))
		w.run(t, m, job)
		if seen.Workspace != w.Workspace || seen.Agent != activity.Operator || seen.Surface != job.Execution.Surface ||
			seen.Subject != job.Hold.Lane || seen.Key != job.Execution.ID+":1.1" || !sameJSON(string(seen.Arguments), `{"a": 1}`) {
			t.Errorf("the call is %+v", seen)
		}
		w.mustBeFree(t, lane.Memory(activity.Operator))
		two := does("greedy", anything, fineSkill)
		two.Lanes = func(skill.Call) []lane.Name { return []lane.Name{"a", "b"} }
		job = w.job(t, two)
		if out, err := w.runner(llmtest.Script(t, llmtest.Call("greedy", `{}`))).Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "greedy needs 2 further lanes") {
			t.Errorf("two further lanes: %+v, %v", out, err)
		}
	})
}

func fineSkill(context.Context, lane.Tx, skill.Call) (any, error) { return "fine", nil }

func TestARunStaysWithItsObjective(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := does("touch", anything, fineSkill)
		k.Lanes = func(c skill.Call) []lane.Name {
			var args struct{ ID string }
			_ = json.Unmarshal(c.Arguments, &args)
			return []lane.Name{lane.Objective(args.ID)}
		}
		job := w.job(t, k)
		job.Execution.ID, job.Execution.Subject = ids(), lane.Objective("one")
		job.Hold = w.acquire(t, job.Execution.Subject)
		err := w.lanes.InHold(t.Context(), job.Hold, func(_ context.Context, tx lane.Tx) error { return w.runs.Start(tx, job.Execution) })
		if err != nil {
			t.Fatal(err)
		}
		m := llmtest.Script(t, llmtest.Call("touch", `{"id": "two"}`, "touch", `{"id": "one"}`), llmtest.Say("done"))
		w.run(t, m, job)
		if r := w.results(t, job); !r[0].IsError || !strings.Contains(r[0].Content, "another objective") || r[1].IsError {
			t.Errorf("the results are %+v", r)
		}
	})
}

func TestAnErrorOfTheDatabaseAboutAValueIsThatCallsError(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := does("odd", anything, func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			w.log.Record(ctx, tx.Later(), activity.Entry{Agent: "a", Surface: c.Surface, Status: "odd"})
			return nil, nil // the CHECK constraint fails at COMMIT
		})
		if content, failed, actions := w.useOnce(t, k, `{}`); !failed || content != "the database refused a value of the call" || len(actions) != 1 {
			t.Errorf("the model is told %q, the log says %+v", content, actions)
		}
	})
}

func TestAnotherErrorEndsTheRunAndLeavesItToBeResumed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		died := errors.New("the process died")
		tries := 0
		k := w.remember("die", func() error {
			if tries++; tries == 1 {
				return died
			}
			return nil
		})
		job := w.job(t, k)
		call := llmtest.Call("die", `{}`)
		if out, err := w.runner(llmtest.Script(t, call)).Run(t.Context(), job); !errors.Is(err, died) || out.Status != "" {
			t.Fatalf("got %+v, %v", out, err)
		}
		if got := w.journal(t, job); len(got) != 2 || len(w.remembered(t)) != 0 || len(w.actions(t, job)) != 0 {
			t.Errorf("the journal has %d entries, remembered %q", len(got), w.remembered(t))
		}
		if out := w.run(t, llmtest.Script(t, llmtest.Say("done")), job); out.Status != execution.Completed || tries != 2 || len(w.remembered(t)) != 1 {
			t.Errorf("resumed it is %+v after %d tries, remembered %q", out, tries, w.remembered(t))
		}
	})
}

func TestASkillSeesWhatTheSchemaAccepted(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		k := does("count", `{"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}}`,
			func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) {
				var args struct {
					N    int
					Deep struct{ List []int }
				}
				if err := json.Unmarshal(c.Arguments, &args); err != nil {
					return nil, skill.Refuse("%v", err)
				}
				return append(args.Deep.List, args.N), nil
			})
		for arguments, want := range map[string]string{
			`{"n": 5}`: `[5]`, `{"n": 5.0}`: `[5]`, `{"n": 5e0, "deep": {"list": [1.0, 2E0]}}`: `[1,2,5]`, `{"n": 99, "n": 7}`: `[7]`,
			`{"n": -0.0}`: `[0]`, `{"deep": {"list": [9007199254740993]}}`: `[9007199254740993,0]`,
		} {
			if content, failed, _ := w.useOnce(t, k, arguments); failed || strings.ReplaceAll(content, " ", "") != want {
				t.Errorf("%s brings %s, want %s", arguments, content, want)
			}
		}
	})
}

// TestNothingAModelWritesBreaksTheRecord: every text of a model may have NUL characters, half
// surrogates and invalid UTF-8.
func TestNothingAModelWritesBreaksTheRecord(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, nasty := range []string{"a\x00b", "\xff\xfe", "\xed\xa0\x80", "a\u2028b", strings.Repeat("\x00", 1000)} {
			raw, err := json.Marshal(nasty)
			if err != nil {
				t.Fatal(err)
			}
			job := w.job(t, does("free", anything, func(_ context.Context, _ lane.Tx, c skill.Call) (any, error) { return c.Arguments, nil }),
				does("sorry", anything, func(context.Context, lane.Tx, skill.Call) (any, error) { return nil, skill.Refuse("no %s", nasty) }))
			call := func(step llmtest.Step) llmtest.Step { // with a text and ids of the same kind
				return func(req llm.Request) (llm.Response, error) {
					resp, err := step(req)
					resp.Text, resp.Model = nasty, nasty
					for i := range resp.Calls {
						resp.Calls[i].ID += nasty
					}
					return resp, err
				}
			}
			m := llmtest.Script(t,
				call(llmtest.Call("free", `{"a": `+string(raw)+`, `+string(raw)+`: [`+string(raw)+`]}`)),
				call(llmtest.Call("free", `{"a": "\ud800", "b": "\u0000"}`)),
				call(llmtest.Call("free", "{\"a\": \"\xff\"}")),
				call(llmtest.Call("sorry", `{}`)),
				call(llmtest.Call(nasty, nasty)),
				call(llmtest.Call("free", `{"a": `+nasty)),
				call(llmtest.Say("done")))
			out := w.run(t, m, job)
			if e := w.close(t, job, out); e.Status != execution.Completed {
				t.Errorf("%.20q: the execution is %+v", nasty, e)
			}
			var failed []bool
			for _, r := range w.results(t, job) {
				failed = append(failed, r.IsError)
			}
			if !slices.Equal(failed, []bool{false, false, false, true, true, true}) || len(w.actions(t, job)) != 4 {
				t.Errorf("%.20q: results %v", nasty, failed)
			}
		}
	})
}

func TestAStallOnNastyNamesCanBeRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		job.Retries = 0
		out := w.run(t, llmtest.Script(t, llmtest.Call("a\x00\xff", "\x00")), job)
		if e := w.close(t, job, out); e.Status != execution.Stalled || e.Error == "" {
			t.Errorf("the execution is %+v", e)
		}
	})
}
