package reason_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// sends returns a skill with an effect outside.
func sends(name string, fn func(ctx context.Context, c skill.Call) (any, error)) skill.Skill {
	return skill.Skill{Name: name, Kind: skill.HTTP, Parameters: json.RawMessage(anything), Do: fn}
}

// outside is a test double for the world outside. It counts effects by key.
type outside struct {
	mu   sync.Mutex
	keys []string
}

func (o *outside) reached(c skill.Call) (times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, c.Key)
	for _, k := range o.keys {
		if k == c.Key {
			times++
		}
	}
	return times
}

// TestCallsIntoTheWorldGoSideBySide: four calls wait for one another, which requires that they run
// concurrently. Their results keep the model's order, whichever ends first.
func TestCallsIntoTheWorldGoSideBySide(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var all sync.WaitGroup
		all.Add(4)
		meet := sends("meet", func(_ context.Context, c skill.Call) (any, error) {
			all.Done()
			all.Wait()
			return c.Arguments, nil
		})
		job := w.job(t, meet)
		out := w.run(t, llmtest.Script(t, llmtest.Call("meet", `{"n": 1}`, "meet", `{"n": 2}`, "meet", `{"n": 3}`, "meet", `{"n": 4}`), llmtest.Say("done")), job)
		if out.Status != execution.Completed {
			t.Fatalf("the run is %+v", out)
		}
		for i, r := range w.results(t, job) {
			if want := fmt.Sprintf(`{"n":%d}`, i+1); !strings.HasSuffix(r.Content, want) {
				t.Errorf("result %d is %q, want %s", i, r.Content, want)
			}
		}
	})
}

// TestASerialSkillRunsAlone: the calls before it have ended when it begins, and those after it
// wait.
func TestASerialSkillRunsAlone(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var order []string
		note := func(name string) skill.Skill {
			return sends(name, func(context.Context, skill.Call) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return nil, nil
			})
		}
		alone := note("alone")
		alone.Serial = true
		job := w.job(t, note("a"), note("b"), alone, note("c"), note("d"))
		out := w.run(t, llmtest.Script(t, llmtest.Call("a", `{}`, "b", `{}`, "alone", `{}`, "c", `{}`, "d", `{}`), llmtest.Say("done")), job)
		if len(order) != 5 || order[2] != "alone" {
			t.Fatalf("the order was %v, the run %+v", order, out)
		}
		slices.Sort(order[:2])
		if !slices.Equal(order[:2], []string{"a", "b"}) {
			t.Errorf("before it came %v", order[:2])
		}
	})
}

// cutOff lets a run die in the middle of a call, after the effect and before the record.
func (w *world) cutOff(t *testing.T, k skill.Skill) reason.Job {
	t.Helper()
	job := w.job(t, k)
	do := k.Do
	dying := k
	dying.Do = func(ctx context.Context, c skill.Call) (any, error) {
		value, err := do(ctx, c)
		w.release(t, job.Hold) // without the lane it cannot record anything
		return value, err
	}
	dead := job
	dead.Skills = set(t, dying)
	_, err := w.runner(llmtest.Script(t, llmtest.Call(k.Name, `{"to": "x"}`))).Run(job.Under(t.Context()), dead)
	if !errors.Is(err, lane.ErrLost) {
		t.Fatalf("the run did not die: %v", err)
	}
	job.Hold = w.acquire(t, job.Execution.Subject)
	return job
}

func set(t testing.TB, skills ...skill.Skill) *skill.Set {
	t.Helper()
	s, err := skill.NewSet(skills...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAKeyedCallThatWasCutOffIsMadeAgainUnderItsKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o outside
		pay := sends("pay", func(_ context.Context, c skill.Call) (any, error) { return map[string]int{"time": o.reached(c)}, nil })
		pay.Keyed = true
		job := w.cutOff(t, pay)
		out := w.run(t, llmtest.Script(t, llmtest.Say("paid")), job)
		if out.Status != execution.Completed || len(o.keys) != 2 || o.keys[0] != o.keys[1] {
			t.Errorf("the run is %+v, the keys are %v", out, o.keys)
		}
		if got := w.results(t, job)[0]; got.IsError || !strings.HasSuffix(got.Content, `{"time":2}`) {
			t.Errorf("the result is %+v", got)
		}
	})
}

func TestAnUnkeyedCallThatWasCutOffIsUncertainAndNotMadeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o outside
		job := w.cutOff(t, sends("shout", func(_ context.Context, c skill.Call) (any, error) { o.reached(c); return nil, nil }))
		w.run(t, llmtest.Script(t, llmtest.Say("a person has to look")), job)
		if len(o.keys) != 1 {
			t.Errorf("it was made %d times", len(o.keys))
		}
		if got := w.results(t, job)[0]; !got.IsError || !strings.Contains(got.Content, "not known") {
			t.Errorf("the result is %+v", got)
		}
		last := w.journal(t, job)[3]
		if last.Kind != execution.Result || last.Status != execution.Uncertain {
			t.Errorf("the journal says %+v", last)
		}
		if got := w.actions(t, job); len(got) != 1 || got[0].Status != activity.Error || !strings.HasPrefix(got[0].Error, "uncertain: ") {
			t.Errorf("the log says %+v", got)
		}
	})
}

// TestACallThatWasCutOffAndMeetsAnotherWorldIsUncertain: if the skill has changed since, the call
// is neither reported as not made, nor does a person have to approve it with another key.
func TestACallThatWasCutOffAndMeetsAnotherWorldIsUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, change := range map[string]func(*reason.Runner, *skill.Skill){
			"it is switched off": func(r *reason.Runner, _ *skill.Skill) {
				r.Switches = switches("skill:pay")
			},
			"it requires approval": func(_ *reason.Runner, k *skill.Skill) { k.RequiresApproval = true },
			"it is gone":           func(_ *reason.Runner, k *skill.Skill) { k.Name = "other" },
			"its parameters are others": func(_ *reason.Runner, k *skill.Skill) {
				k.Parameters = json.RawMessage(`{"type": "object", "required": ["sum"]}`)
			},
			"it is keyed no more":      func(_ *reason.Runner, k *skill.Skill) { k.Keyed = false },
			"it works in the database": func(_ *reason.Runner, k *skill.Skill) { *k = does("pay", anything, fineSkill) },
		} {
			var o outside
			pay := sends("pay", func(_ context.Context, c skill.Call) (any, error) { o.reached(c); return "paid", nil })
			pay.Keyed = true
			job := w.cutOff(t, pay)
			r := w.runner(llmtest.Script(t, llmtest.Say("a person has to look")))
			q := &waiting{}
			r.Approvals = q
			change(r, &pay)
			job.Skills = set(t, pay)
			out, err := r.Run(job.Under(t.Context()), job)
			if err != nil || out.Status != execution.Completed || len(o.keys) != 1 || len(q.asked) > 0 || !slices.Equal(out.Uncertain, []string{"pay"}) {
				t.Errorf("%s: made %d times, asked for %v, the run is %+v, %v", name, len(o.keys), q.asked, out, err)
			}
			if got := w.results(t, job)[0]; !got.IsError || !strings.Contains(got.Content, "not known") {
				t.Errorf("%s: the result is %+v", name, got)
			}
			if got := w.actions(t, job); len(got) != 1 || got[0].Skill != "pay" || !strings.HasPrefix(got[0].Error, "uncertain: ") {
				t.Errorf("%s: the log says %+v", name, got)
			}
		}
	})
}

// TestACallThatWasCutOffIsUncertainInARunThatStallsBeforeIt: the call is uncertain even if the run
// stalls before it reaches the call again.
func TestACallThatWasCutOffIsUncertainInARunThatStallsBeforeIt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		s := &stage{world: w, ran: &counts{}}
		entry := func(seq int, kind execution.Kind, call, body string) execution.Entry {
			return execution.Entry{Seq: seq, Step: 1, Kind: kind, Status: execution.Succeeded, Call: call, Body: json.RawMessage(body)}
		}
		job := s.cutAt(t, play{steps: 20}, []execution.Entry{
			entry(1, execution.Input, "", `{"messages": []}`),
			entry(2, execution.Model, "", `{"message": {"role": "assistant", "calls": [{"id": "a", "name": "pay", "arguments": "{}"}, {"id": "b", "name": "gone", "arguments": "{}"}]}}`),
			entry(3, execution.Called, "1.1", `{"skill": "pay"}`),
		})
		pay := sends("pay", func(context.Context, skill.Call) (any, error) { return nil, errors.New("made again") })
		pay.Keyed = true
		job.Skills = set(t, pay)
		if out := w.run(t, llmtest.Script(t), job); out.Status != execution.Stalled || !slices.Equal(out.Uncertain, []string{"pay"}) {
			t.Errorf("the run is %+v", out)
		}
	})
}

// TestACallThatHadNoTurnWasNotMade: if the time ends while a call waits in the queue, the call is
// made later, with or without a key.
func TestACallThatHadNoTurnWasNotMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var o outside
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := sends("slow", func(_ context.Context, c skill.Call) (any, error) {
			o.reached(c)
			cancel()
			return "done", nil
		})
		job := w.job(t, slow)
		r := w.runner(llmtest.Script(t, llmtest.Call("slow", `{"n": 1}`, "slow", `{"n": 2}`, "slow", `{"n": 3}`)))
		r.Queues = queue.New(queue.Options{Queues: map[string]queue.Limits{reason.CallQueue: {MaxConcurrent: 1}}})
		out, err := r.Run(job.Under(ctx), job)
		if err != nil || out.Status != execution.Parked || len(o.keys) != 1 {
			t.Errorf("after %d calls it is %+v, %v", len(o.keys), out, err)
		}
		out = w.run(t, llmtest.Script(t, llmtest.Say("done")), job)
		if out.Status != execution.Completed || len(o.keys) != 3 || len(out.Uncertain) > 0 {
			t.Errorf("after %d calls it is %+v", len(o.keys), out)
		}
	})
}

// TestACallWhoseAnswerIsLostIsMadeAgainOnlyUnderAKey: a call with a key is made at most three
// times. Then its effect is uncertain.
func TestACallWhoseAnswerIsLostIsMadeAgainOnlyUnderAKey(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			keyed   bool
			lost    int // number of lost answers
			times   int
			status  execution.StepStatus
			isError bool
		}{
			{false, 1, 1, execution.Uncertain, true},
			{true, 1, 2, execution.Succeeded, false},
			{true, 2, 3, execution.Succeeded, false},
			{true, 9, 3, execution.Uncertain, true},
		} {
			var o outside
			k := sends("send", func(_ context.Context, call skill.Call) (any, error) {
				if o.reached(call) <= c.lost {
					return nil, &skill.UncertainError{Reason: "the connection was cut"}
				}
				return "sent", nil
			})
			k.Keyed = c.keyed
			job := w.job(t, k)
			w.run(t, llmtest.Script(t, llmtest.Call("send", `{}`), llmtest.Say("done")), job)
			got := w.results(t, job)[0]
			if len(o.keys) != c.times || got.IsError != c.isError || w.journal(t, job)[3].Status != c.status {
				t.Errorf("%+v: made %d times, the result is %+v, %s", c, len(o.keys), got, w.journal(t, job)[3].Status)
			}
		}
	})
}

func TestASlowOrPanickingCallIntoTheWorldIsUncertain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, do := range map[string]func(context.Context, skill.Call) (any, error){
			"hangs":  func(ctx context.Context, _ skill.Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
			"panics": func(context.Context, skill.Call) (any, error) { panic("boom") },
		} {
			k := sends("odd", do)
			k.Timeout = 20 * time.Millisecond
			job := w.job(t, k)
			out := w.run(t, llmtest.Script(t, llmtest.Call("odd", `{}`), llmtest.Say("done")), job)
			if got := w.journal(t, job)[3]; out.Status != execution.Completed || got.Status != execution.Uncertain {
				t.Errorf("%s: the run is %s, the call %s", name, out.Status, got.Status)
			}
		}
	})
}

func TestARefusalFromTheWorldGoesToTheModel(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, sends("ask", func(context.Context, skill.Call) (any, error) { return nil, skill.Fail(skill.Theirs, "status 503") }))
		out := w.run(t, llmtest.Script(t, llmtest.Call("ask", `{}`), llmtest.Say("done")), job)
		if got := w.results(t, job)[0]; out.Status != execution.Completed || !got.IsError || !strings.Contains(got.Content, "status 503") {
			t.Errorf("the run is %s, the result %+v", out.Status, got)
		}
	})
}

// TestASecretErrorStaysOutOfThePrompt: only a text that a skill writes for the model reaches the
// model.
func TestASecretErrorStaysOutOfThePrompt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, sends("leak", func(context.Context, skill.Call) (any, error) { return nil, errors.New("password hunter2") }))
		w.run(t, llmtest.Script(t, llmtest.Call("leak", `{}`), llmtest.Say("done")), job)
		if got := w.results(t, job)[0]; strings.Contains(got.Content, "hunter2") || !got.IsError {
			t.Errorf("the result is %+v", got)
		}
	})
}

// TestAPersonsCallsGoFirst: calls of an execution that a person waits for have class user, even in
// the same queue as the heartbeat's calls.
func TestAPersonsCallsGoFirst(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	for surface, want := range map[trace.Surface]queue.Class{
		trace.Operate: queue.User, trace.Chat: queue.User, trace.Heartbeat: queue.Background, trace.Webhook: queue.Background,
	} {
		var mu sync.Mutex
		var seen []queue.Class
		send := sends("send", func(context.Context, skill.Call) (any, error) { return "sent", nil })
		send.Scope = skill.External // so that trust requires no approval
		job := w.job(t, send)
		job.Execution.Surface = surface
		r := w.runner(llmtest.Script(t, llmtest.Call("send", `{"to": "a"}`, "send", `{"to": "b"}`), llmtest.Say("done")))
		r.Queues = queue.New(queue.Options{Observe: func(_ context.Context, d queue.Done) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, d.Class)
		}})
		if _, err := r.Run(job.Under(t.Context()), job); err != nil || !slices.Equal(seen, []queue.Class{want, want}) {
			t.Errorf("%s: the calls are %v, want %s, %v", surface, seen, want, err)
		}
	}
}

// TestCallsSideBySideShareNoState: the lane is lost and the run's state changes while concurrent
// calls run.
func TestCallsSideBySideShareNoState(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var begun atomic.Int32
		met := make(chan struct{})
		var job reason.Job
		lose := sync.OnceFunc(func() { w.release(t, job.Hold) })
		k := sends("send", func(context.Context, skill.Call) (any, error) {
			if begun.Add(1) == 4 { // the largest number of concurrent calls
				close(met)
			}
			<-met
			lose()
			return "sent", nil
		})
		job = w.job(t, k)
		var calls []string
		for i := range 8 {
			calls = append(calls, "send", fmt.Sprintf(`{"n":%d}`, i))
		}
		r := w.runner(llmtest.Script(t, llmtest.Call(calls...)))
		if _, err := r.Run(job.Under(t.Context()), job); !errors.Is(err, lane.ErrLost) {
			t.Errorf("without its lane the run ended with %v", err)
		}
	})
}

// ending is a clock that ends a run at its n-th reading.
type ending struct {
	mu   sync.Mutex
	left int
	end  context.CancelFunc
}

func (e *ending) set(n int, end context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.end = n, end
}

func (e *ending) now() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left == 0 {
		e.end()
	}
	return time.Now()
}

// TestWhatHappenedLastIsRecorded: the run's time ends between the effect of a call without a key
// and its record, at any point.
func TestWhatHappenedLastIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for name, c := range map[string]struct {
			err    error
			status execution.StepStatus
		}{"done": {nil, execution.Succeeded}, "refused": {skill.Fail(skill.Theirs, "status 503"), execution.Errored}} {
			for at := range 4 {
				ctx, end := context.WithCancel(t.Context())
				e := &ending{}
				var o outside
				k := sends("send", func(_ context.Context, call skill.Call) (any, error) {
					o.reached(call)
					if at == 0 {
						end()
					}
					e.set(at, end)
					return "sent", c.err
				})
				job := w.job(t, k)
				r := w.runner(llmtest.Script(t, llmtest.Call("send", `{}`), llmtest.Say("done")))
				r.Clock = e.now
				if _, err := r.Run(job.Under(ctx), job); err != nil {
					t.Fatal(err)
				}
				end()
				last := w.journal(t, job)
				if len(last) < 4 || last[3].Status != c.status {
					t.Errorf("%s, cut off at %d: the journal says %+v", name, at, last[len(last)-1])
				}
				if out := w.run(t, llmtest.Script(t, slices.Repeat([]llmtest.Step{llmtest.Say("done")}, 5-len(last))...), job); out.Status != execution.Completed || len(out.Uncertain) > 0 || len(o.keys) != 1 {
					t.Errorf("%s, cut off at %d: made %d times, the run is %+v", name, at, len(o.keys), out)
				}
			}
		}
	})
}

// TestAnAnswerThatIsPaidForIsRecorded: the run's time ends between the answer and its record.
func TestAnAnswerThatIsPaidForIsRecorded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ending := job
		ending.Spent = func(llm.Usage) { end() }
		out, err := w.runner(llmtest.Script(t, llmtest.Say("done"))).Run(job.Under(ctx), ending)
		if err != nil || len(w.journal(t, job)) != 2 {
			t.Errorf("the run is %+v, %v, its journal has %d entries", out, err, len(w.journal(t, job)))
		}
		if out := w.run(t, llmtest.Script(t), job); out.Status != execution.Completed || out.Answer != "done" {
			t.Errorf("resumed it is %+v", out)
		}
	})
}
