package reason_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// mailbox has messages that arrive between the steps of a run. It records in the database that they
// were read.
type mailbox struct {
	*world
	job   reason.Job
	asked []int // the numbers of steps at which it was asked
	texts []string
	fails error // error of the write
	stale int   // how often the messages change during the write
	stop  *reason.Stopped
}

func (m *mailbox) between(_ context.Context, p reason.Progress) (in reason.Interim, err error) {
	m.asked = append(m.asked, p.Steps)
	if p.Steps == 0 {
		return in, nil
	}
	for _, text := range m.texts {
		in.Messages = append(in.Messages, llm.Message{Role: llm.RoleUser, Text: text})
	}
	if m.stale--; m.stale < 0 {
		m.texts = nil
	}
	stale := m.stale >= 0
	in.Trust, in.Stop = execution.Untrusted, m.stop
	in.Also = func(ctx context.Context, tx lane.Tx) error {
		m.log.Record(ctx, tx.Later(), activity.Entry{
			Agent: m.job.Agent, Surface: m.job.Execution.Surface, Skill: "mail.read", Status: activity.Success, Execution: m.job.Execution.ID,
		})
		if stale {
			return reason.ErrStale
		}
		return m.fails
	}
	return in, nil
}

// read returns how often messages were marked as read.
func (m *mailbox) read(t testing.TB) (n int) {
	t.Helper()
	for _, e := range m.story(t, m.job) {
		if e.Skill == "mail.read" {
			n++
		}
	}
	return n
}

// inputs returns the journal's entries that brought messages into the run.
func (w *world) inputs(t testing.TB, job reason.Job) []execution.Entry {
	t.Helper()
	return slices.DeleteFunc(w.journal(t, job), func(e execution.Entry) bool { return e.Kind != execution.Input })
}

func TestMessagesComeBetweenTwoSteps(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := &mailbox{world: w, job: job, texts: []string{"Also feed the cat."}, stale: 1}
		job.Between = m.between
		model := llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), llmtest.Call("echo_back", `{"text": "y"}`), llmtest.Say("Done."))
		out := w.run(t, model, job)
		if out.Status != execution.Completed || out.Trust != execution.Untrusted {
			t.Errorf("got %+v", out)
		}
		if !slices.Equal(m.asked, []int{0, 1, 1, 2}) {
			t.Errorf("asked after the steps %v", m.asked)
		}
		for n, req := range model.Requests() {
			last := req.Messages[len(req.Messages)-1]
			if came := last.Role == llm.RoleUser && last.Text == "Also feed the cat."; came != (n == 1) {
				t.Errorf("request %d ends with %+v", n+1, last)
			}
		}
		if n := m.read(t); n != 1 {
			t.Errorf("marked as read %d times", n)
		}
	})
}

// TestWhatCameBetweenSurvivesAKill: a resumed run knows the messages, and they are read once.
func TestWhatCameBetweenSurvivesAKill(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := &mailbox{world: w, job: job, texts: []string{"Also feed the cat."}}
		job.Between = m.between
		dies := func(llm.Request) (llm.Response, error) {
			err := w.DB.Tx(context.Background(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, err := w.lanes.ForceRelease(ctx, tx, job.Hold.Lane)
				return err
			})
			resp, _ := llmtest.Say("Never heard.")(llm.Request{})
			return resp, err
		}
		_, err := w.runner(llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`), dies)).Run(job.Under(t.Context()), job)
		if !errors.Is(err, lane.ErrLost) {
			t.Fatal(err)
		}
		if inputs := w.inputs(t, job); len(inputs) != 2 || inputs[1].Trust != execution.Untrusted || m.read(t) != 1 {
			t.Fatalf("read %d times, the journal has %+v", m.read(t), inputs)
		}
		job.Hold, job.Execution.Attempt = w.acquire(t, job.Hold.Lane), 2
		model := llmtest.Script(t, llmtest.Say("The cat is fed."))
		if out := w.run(t, model, job); out.Answer != "The cat is fed." {
			t.Errorf("got %+v", out)
		}
		told := model.Requests()[0].Messages
		if last := told[len(told)-1]; last.Role != llm.RoleUser || last.Text != "Also feed the cat." {
			t.Errorf("the model is told %+v", last)
		}
		if n := m.read(t); n != 1 {
			t.Errorf("marked as read %d times", n)
		}
	})
}

// TestWhatIsNotMarkedAsReadDidNotCome: the message and its mark are one transaction.
func TestWhatIsNotMarkedAsReadDidNotCome(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := &mailbox{world: w, job: job, texts: []string{"Also feed the cat."}, fails: errors.New("no")}
		job.Between = m.between
		if _, err := w.runner(llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`))).Run(job.Under(t.Context()), job); !errors.Is(err, m.fails) {
			t.Errorf("got %v", err)
		}
		if inputs := w.inputs(t, job); len(inputs) != 1 || m.read(t) != 0 {
			t.Errorf("read %d times, the journal has %+v", m.read(t), inputs)
		}
	})
}

func TestARunIsStoppedBetweenTwoSteps(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		job := w.job(t, echo())
		m := &mailbox{world: w, job: job, texts: []string{"Stop."}, stop: &reason.Stopped{Status: execution.Parked, Reason: "an order"}}
		job.Between = m.between
		out := w.run(t, llmtest.Script(t, llmtest.Call("echo_back", `{"text": "x"}`)), job)
		if out.Status != execution.Parked || out.Reason != "an order" || out.Steps != 1 || len(w.inputs(t, job)) != 2 {
			t.Errorf("got %+v, the journal has %+v", out, w.inputs(t, job))
		}
	})
}
