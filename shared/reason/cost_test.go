package reason_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// TestWhatAStepCosts counts the statements and round trips between two model calls. A further hold
// costs nothing, because all holds are proven in one statement.
func TestWhatAStepCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		queues := does("queues", anything, func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			w.log.Record(ctx, tx.Later(), activity.Entry{Agent: "a", Surface: c.Surface, Status: activity.Success})
			return nil, nil
		})
		reads := does("reads", anything, func(ctx context.Context, tx lane.Tx, _ skill.Call) (any, error) {
			return w.log.ListIn(ctx, tx, activity.Filter{Limit: 1})
		})
		good := []string{"nothing", `{}`}
		for _, c := range []struct {
			name  string
			calls []string
			want  db.Stats // without those of the model's answer
		}{
			{"no call", nil, db.Stats{}},
			{"a skill that does nothing", []string{"fine", `{}`}, db.Stats{Statements: 3, RoundTrips: 1}},
			{"a skill that writes", []string{"queues", `{}`}, db.Stats{Statements: 4, RoundTrips: 1}},
			{"a skill that reads", []string{"reads", `{}`}, db.Stats{Statements: 4, RoundTrips: 2}},
			{"a skill with a further lane", []string{"save", `{}`}, db.Stats{Statements: 7, RoundTrips: 3}},
			{"a call that can't be made", good, db.Stats{Statements: 3, RoundTrips: 1}},
			{"three calls", []string{"fine", `{}`, "fine", `{}`, "fine", `{}`}, db.Stats{Statements: 9, RoundTrips: 3}},
		} {
			for _, outer := range []bool{false, true} {
				job := w.job(t, queues, reads, does("fine", anything, fineSkill), w.remember("save", fine))
				if outer {
					job.Outer = []*lane.Hold{w.acquire(t, lane.Name("outer:"+job.Execution.ID))}
				}
				var before, step, last db.Stats
				first := func(req llm.Request) (llm.Response, error) {
					before = w.DB.Stats()
					if c.calls == nil {
						return llmtest.Say("done")(req)
					}
					return llmtest.Call(c.calls...)(req)
				}
				second := func(req llm.Request) (llm.Response, error) {
					step = w.DB.Stats().Sub(before)
					before = w.DB.Stats()
					return llmtest.Say("done")(req)
				}
				steps := []llmtest.Step{first, second}
				if c.calls == nil {
					steps = steps[:1]
				}
				begun := w.DB.Stats()
				w.run(t, llmtest.Script(t, steps...), job)
				last = w.DB.Stats().Sub(before)
				answer := db.Stats{Statements: 4, RoundTrips: 1}
				want := db.Stats{Statements: answer.Statements + c.want.Statements, RoundTrips: answer.RoundTrips + c.want.RoundTrips}
				begin := db.Stats{Statements: 3, RoundTrips: 2}
				if last != answer {
					t.Errorf("%s (outer hold: %v): a model's answer takes %+v, want %+v", c.name, outer, last, answer)
				}
				if c.calls == nil {
					if got := before.Sub(begun); got != begin {
						t.Errorf("to begin takes %+v, want %+v", got, begin)
					}
					continue
				}
				if step != want {
					t.Errorf("%s (outer hold: %v): the step takes %+v, want %+v", c.name, outer, step, want)
				}
			}
		}
	})
}

func TestResumingCostsOneRead(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		w.run(t, llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Say("done")), job)
		before := w.DB.Stats()
		out := w.run(t, llmtest.Script(t), job) // the run has ended but was not closed
		if got := w.DB.Stats().Sub(before); got != (db.Stats{Statements: 1, RoundTrips: 1}) || out.Answer != "done" {
			t.Errorf("it takes %+v and says %+v", got, out)
		}
	})
}
