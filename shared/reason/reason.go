// Package reason is the loop in which a model works. It calls the model, checks and makes the
// model's calls, and returns their results to the model, until the model answers or a stop
// condition holds. It writes every step to the execution's journal before the next one. A killed
// run therefore resumes where it was, and a call with a recorded result is not repeated.
package reason

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Runner runs the loop. It keeps no state between runs and is safe for concurrent use.
type Runner struct {
	Model llm.Model
	// Models returns a workspace's model. If it is set, Model is not used.
	Models   func(db.Workspace) llm.Model
	Runs     *execution.Store
	Lanes    *lane.Store
	Activity *activity.Log
	// Queues has the queue for the concurrent calls of a step.
	Queues *queue.Queues
	// Approvals stores calls that wait for a person; nil: such calls are refused.
	Approvals Approvals
	// Switches reads the kill switches of a workspace; nil: there are none.
	Switches func(context.Context, db.Workspace) (Halts, error)
	// Basis adds to a batch the reads of [Runner.ReadBasis] except those of the model's circuits; its Ready
	// may be nil. Without it each run reads by itself.
	Basis func(*db.Batch) *Basis
	// Release releases the threads of an execution that has ended; nil: it has none.
	Release func(ctx context.Context, tx lane.Tx, execution string) error
	// Meter keeps usage within budgets; nil: there are no budgets.
	Meter Meter
	// ModelID is the id of the default model. It determines the model's price and kill switch.
	// Empty: the provider's name.
	ModelID string
	// Known returns a redactor for the secrets of the configuration and of a workspace; nil: there
	// are none. No text of a run may contain such a secret, whether or not the run resolves it.
	Known func(context.Context, db.Workspace) *redact.Redactor
	// Spans records the runs and their calls; nil: nothing is recorded.
	Spans *span.Exporter
	Log   *slog.Logger
	Clock func() time.Time
}

// A Job is one run of the loop.
type Job struct {
	Execution execution.Execution
	// Hold protects the execution. Every write proves it.
	Hold *lane.Hold
	// Outer lists further holds that the run depends on, such as that of its heartbeat. Every
	// write proves and renews them too, and learns who waits for them.
	Outer []*lane.Hold
	Agent string
	// AgentID is the id of a registered agent, by which a kill switch may name it, too; empty: it has none.
	AgentID string
	By      string // the person whose turn it is, such as user:…; empty: there is none
	System  string
	// Model is the provider's id of the model; empty: the configured one. Temperature is 0 to 2;
	// nil: the provider's default.
	Model       string
	Temperature *float64
	Messages    []llm.Message // the messages with which a new run begins
	Skills      *skill.Set
	// Trust is the trust of the first messages; empty: the default of the surface.
	Trust execution.Trust
	// Rule says that a rule of an admin makes the call, and no model. Untrusted arguments then
	// require no approval.
	Rule bool
	// EffectKey is the prefix of the calls' idempotency keys, so that the same call of another
	// execution has the same key; empty: the execution's id.
	EffectKey string
	// Approved allows every call, because a person asked for it.
	Approved bool
	// Once says that a call which was cut off is not made again: its result is uncertain.
	Once bool
	// Guarded says that strangers are told what the model says: see [redact.Guard]. The run adds a
	// canary to its system prompt.
	Guarded   bool
	MaxTokens int // longest answer in tokens
	// Task is the task that the run is an attempt at, and TaskAttempt the number of that attempt; empty:
	// there is none. The budgets of the task pay for the run.
	Task        string
	TaskAttempt int
	// Tokens is the most that the run may use, its earlier attempts too: the call by which it is
	// reached is the last. 0: nothing bounds it; less: none are left.
	Tokens int64
	// Window is the size of the model's context window in tokens; 0: nothing is compacted.
	Window int
	Stops  []Stop
	// Between is called before each step, outside of any transaction, and returns what has arrived
	// since; nil: nothing does.
	Between func(context.Context, Progress) (Interim, error)
	// Retries is how often the model may retry after an impossible call, such as one with an
	// unknown name or wrong arguments.
	Retries int
	// SkillTimeout is the time limit of a call.
	SkillTimeout time.Duration
	// Day is the agent's daily limit of tokens on the surface, and DayMicroUSD its daily limit of
	// money; 0: only the budgets limit it.
	Day, DayMicroUSD int64
	// Priced refuses a model without a known price, because the caller counts money.
	Priced bool
	// Spent is called with the usage and cost of each model call.
	Spent func(llm.Usage)
	// NoApprovals refuses calls that a person would have to approve.
	NoApprovals bool
	// TellsDecisions says that the caller reports people's decisions by [Runner.Decided].
	TellsDecisions bool
	// Delta is called with each piece of an answer as the model writes it, in order, from the
	// run's goroutine; nil: answers are not streamed.
	Delta func(context.Context, llm.Delta)
	// Check sees the text of each answer before anybody is told of it or it is recorded; nil: nobody
	// checks it. With a check, Delta is called with whole texts only.
	Check func(ctx context.Context, text string, conversation []llm.Message) (Checked, error)
	// Overlaps says that a new run may ask the model while the first entry of its journal is committed.
	// Nothing of the answer is told, and nothing else is written, before that commit has proven the holds.
	Overlaps bool
	// Recorded is called with new entries of the journal after their commit, in order.
	Recorded func([]execution.Entry)
	// Basis is what a transaction of the caller has read for the run's first step, just before it; nil:
	// the run reads it.
	Basis *Basis
	// Journal is the execution's journal if the caller has read it under the hold; empty but not
	// nil: there is none; nil: the run reads it.
	Journal []execution.Entry
}

// Outcome describes how a run ended.
type Outcome struct {
	Status  execution.Status // completed, waiting, parked, stalled or failed
	Reason  string           // why it did not complete, or what is missing in the answer
	Answer  string           // the model's last text
	Summary string           // what was accomplished, for a run that did not complete
	// Halted says that the next run would end in the same way: the model fails, its budget is used
	// up, or a kill switch is on.
	Halted bool
	// Switched says that a kill switch halts it.
	Switched bool
	// Short says that a budget halts it which is not used up.
	Short bool
	Trust execution.Trust // trust at the end
	// Uncertain lists the skills of calls whose outcome is unknown. A person has to look.
	Uncertain []string
	// Waits lists the approvals that the run's calls wait for and whose outcome was not reported
	// to the run.
	Waits []string
	// LastMistake is the last impossible call, unless a possible one came after it.
	LastMistake LastMistake
	Progress
	// Unlogged holds the activity entries of model calls that [Runner.Close] writes.
	Unlogged []activity.Entry
	// Unspent is the usage of model calls without an answer, which [Runner.Close] counts.
	Unspent llm.Usage
}

// Run works until the model answers or a stop condition holds. The caller ends the execution with
// [Runner.Close]. If the context ends for another cause than [lane.ErrLost], the run is parked. An
// error says that the run could not continue for a reason outside of the work, such as
// [lane.ErrLost] or a database that is down. The execution then stays unchanged but for what its
// calls have used, and a later process resumes it.
func (r *Runner) Run(ctx context.Context, job Job) (Outcome, error) {
	ctx, cancel := lane.WithLastWrites(r.discreet(ctx, job.Hold.Workspace))
	defer cancel()
	s, err := r.resume(ctx, job)
	if s.guard != nil {
		job.System = s.system
	}
	var out Outcome
	if err == nil {
		out, err = r.loop(ctx, job, s)
	}
	if opened := s.awaitOpening(); err == nil {
		err = opened
	}
	if err != nil && ctx.Err() != nil && !isLost(err) {
		r.Log.WarnContext(ctx, "run interrupted", "step", s.Steps, "error", err)
		out, err = s.outcome(execution.Parked, endOf(ctx)), nil
	}
	if err == nil && isLost(context.Cause(ctx)) { // a model that was interrupted parks the run, which nobody closes
		out, err = Outcome{}, fmt.Errorf("run interrupted: %w", context.Cause(ctx))
	}
	r.pay(ctx, s)
	if err != nil && job.Tokens != 0 {
		r.count(ctx, job, s)
	}
	out.Unlogged, out.Unspent = s.lines, s.lost
	out.Usage = out.Usage.Plus(s.lost)
	return out, err
}

// count adds the usage of calls without a recorded answer to the execution of a run that no Close
// ends. It proves no hold, because a run that was stopped has also used tokens of its conversation. A
// run without such a bound writes nothing once it has lost its hold.
func (r *Runner) count(ctx context.Context, job Job, s *state) {
	if s.lost == (llm.Usage{}) {
		return
	}
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	prompt := s.lost.TotalTokens() - s.lost.CompletionTokens
	if err := r.Runs.SpendLate(last, job.Hold.Workspace, job.Execution.ID, int64(prompt), int64(s.lost.CompletionTokens),
		s.lost.USD()); err != nil {
		r.Log.ErrorContext(ctx, "what a stopped run used is not counted", "error", err)
	}
}

// loop takes one step after the other. Stop conditions are checked before a step, never within one.
// A run that is resumed in the middle of a step first finishes that step.
func (r *Runner) loop(ctx context.Context, job Job, s *state) (Outcome, error) {
	for {
		begun := r.Clock()
		if over := s.answered && len(s.pending)+len(s.waits) == 0; !over {
			if out, err := r.look(ctx, job, s); out != nil || err != nil {
				return deref(out), err
			}
		}
		if len(s.pending) == 0 {
			if why := s.stalled(job); why != "" {
				return s.outcome(execution.Stalled, why), nil
			}
			if out, err := r.waitsOn(ctx, job, s); out != nil || err != nil {
				return deref(out), err
			}
			if s.answered {
				return s.ended(), nil
			}
			if job.Tokens != 0 && job.left(s) <= 0 {
				return s.outcome(execution.Stalled, UsedUp), nil
			}
			if stop := s.stop(ctx, job.Stops); stop != nil {
				return s.outcome(stop.Status, stop.Reason), nil
			}
			if out, err := r.between(ctx, job, s); out != nil || err != nil {
				return deref(out), err
			}
			if out, err := r.ask(ctx, job, s); out != nil || err != nil {
				return deref(out), err
			}
		}
		if err := r.settle(ctx, job, s); err != nil {
			return Outcome{}, err
		}
		if why := s.stalled(job); why != "" {
			return s.outcome(execution.Stalled, why), nil
		}
		s.LongestStep = max(s.LongestStep, r.Clock().Sub(begun))
	}
}

// discreet gives a run its own redactor for the secrets of its workspace and for those that it
// resolves.
func (r *Runner) discreet(ctx context.Context, ws db.Workspace) context.Context {
	var known *redact.Redactor
	if r.Known != nil {
		known = r.Known(ctx, ws)
	}
	return redact.With(ctx, redact.New(known))
}

// model returns the workspace's model.
func (r *Runner) model(ws db.Workspace) llm.Model {
	if r.Models != nil {
		return r.Models(ws)
	}
	return r.Model
}

// Paused returns why the workspace's model is not called now, or an empty text if it is.
func (r *Runner) Paused(ctx context.Context, ws db.Workspace) string {
	if m, ok := r.model(ws).(interface{ Paused(context.Context) string }); ok {
		return m.Paused(ctx)
	}
	return ""
}

// ErrStopped is the cause of a context that ends because its process is stopped.
var ErrStopped = errors.New("the server was stopped")

// endOf returns why a run is parked whose context has ended or is about to end.
func endOf(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), ErrStopped) {
		return ErrStopped.Error()
	}
	return "the time was up"
}

func deref(o *Outcome) (v Outcome) {
	if o != nil {
		v = *o
	}
	return v
}

// resume folds the journal of an execution that began before, or begins it. It always returns a
// state, which is empty after an error.
func (r *Runner) resume(ctx context.Context, job Job) (s *state, err error) {
	defer func() { s.model, s.halts, s.basis = job.Basis.modelOr(r, job.Hold.Workspace), nothing{}, job.Basis }()
	entries := job.Journal
	if entries == nil {
		if entries, err = r.Runs.Journal(ctx, job.Hold.Workspace, job.Execution.ID, 0); err != nil {
			return &state{}, err
		}
	}
	base := estimate(job.request(&state{}))
	if s, err = foldEntries(entries, base); err != nil {
		return &state{}, fmt.Errorf("resume execution %s: %w", job.Execution.ID, err)
	}
	s.recorded, s.known = job.Recorded, redact.From(ctx).Values()
	if job.Guarded && len(entries) == 0 {
		s.system = marked(job.System)
		job.System = s.system
	}
	if job.Guarded {
		s.guard = redact.NewGuard(s.known, canaryOf(s.system))
	}
	if len(entries) > 0 {
		r.Log.InfoContext(ctx, "run resumed", "step", s.Steps, "attempt", job.Execution.Attempt, "open_calls", len(s.pending))
		return s, nil
	}
	return s, r.open(ctx, job, s)
}

// open adds the first entry of the journal. Where the job allows it, the commit goes on when open
// returns, and [state.awaitOpening] waits for it.
func (r *Runner) open(ctx context.Context, job Job, s *state) error {
	trust := cmp.Or(job.Trust, wordsOf(job.Execution.Surface))
	body := inputBody{System: job.System, Skills: job.Skills.Names(), Messages: job.Messages}
	if !job.Overlaps {
		return r.append(ctx, job, s, execution.Input, trust, body, nil)
	}
	entry, err := s.add(execution.Input, execution.Succeeded, "", trust, body)
	if err != nil {
		return err
	}
	committed := make(chan error, 1)
	last, cancel := lane.LastWrites(ctx)
	go func() {
		defer cancel()
		committed <- r.Lanes.InHold(last, job.holds(), func(_ context.Context, tx lane.Tx) error {
			return r.Runs.Append(tx, job.Execution, entry)
		})
	}()
	s.opening = sync.OnceValue(func() error {
		err := <-committed
		if err == nil {
			s.tellFresh()
		}
		return err
	})
	return nil
}

// modelLimit is the time limit of one answer; silence ends it earlier. It is the longest time that
// fits into a lease, so that no renewal is needed for an answer alone.
const modelLimit = 4*time.Minute + 30*time.Second

// append adds one entry in a transaction that proves the holds. If used is not nil, it also counts
// that usage, including the usage of earlier calls without an answer.
func (r *Runner) append(ctx context.Context, job Job, s *state, kind execution.Kind, trust execution.Trust, body any,
	used *llm.Usage) error {
	return r.appendWith(ctx, job, s, kind, trust, body, used, Interim{})
}

// appendWith is append with the further writes of an interim in the same transaction.
func (r *Runner) appendWith(ctx context.Context, job Job, s *state, kind execution.Kind, trust execution.Trust,
	body any, used *llm.Usage, in Interim) error {
	last, cancel := lane.LastWrites(ctx) // an answer costs money, so it must be recorded
	defer cancel()
	err := r.commitBeside(last, s, job.holds(), in.Beside, func(ctx context.Context, tx lane.Tx) error {
		entry, err := s.add(kind, execution.Succeeded, "", trust, body)
		if err != nil {
			return err
		}
		if in.Also != nil {
			if err := in.Also(ctx, tx); err != nil {
				return err
			}
		}
		for _, line := range s.lines {
			r.Activity.Record(ctx, tx.Later(), line)
		}
		if err := r.Runs.Append(tx, job.Execution, entry); err != nil || used == nil {
			return err
		}
		return r.spend(tx, job, *used)
	})
	if err == nil {
		s.lines = nil
	}
	switch {
	case used == nil:
	case err == nil || errors.Is(err, db.ErrUncertain): // it may have been counted
		s.lost = llm.Usage{}
	default:
		s.lost = *used
	}
	r.pay(ctx, s)
	return err
}

// spend adds the usage of models to the execution.
func (r *Runner) spend(tx lane.Tx, job Job, used llm.Usage) error {
	prompt := used.TotalTokens() - used.CompletionTokens
	return r.Runs.Spend(tx, job.Execution, int64(prompt), int64(used.CompletionTokens), used.USD())
}

// UsedUp is the reason of a run that ends because it has used all tokens that were left to it.
const UsedUp = "the tokens of the conversation are used up"

// Halt is the part of an execution's result that says how a run was halted.
type Halt struct {
	Halts    int  `json:"halts,omitempty"`    // how often in a row, without a step in between
	Switched bool `json:"switched,omitempty"` // by a kill switch
}

// haltOf counts the halts of an execution, of which e has the result of the run before.
func haltOf(e execution.Execution, out Outcome) Halt {
	if out.Status != execution.Parked || !out.Halted {
		return Halt{Switched: out.Switched}
	}
	var before struct {
		Steps int `json:"steps"`
		Halt
	}
	_ = json.Unmarshal(e.Result, &before) // a new execution has none
	if before.Steps != out.Steps {
		before.Halts = 0
	}
	return Halt{before.Halts + 1, out.Switched}
}

// Close adds the end of a run to the transaction: the execution's status and result and, for a run
// that did not complete, an activity entry that says so. A halted attempt does not count.
func (r *Runner) Close(ctx context.Context, tx lane.Tx, job Job, out Outcome) error {
	result, err := json.Marshal(struct {
		Answer  string   `json:"answer,omitempty"`
		Reason  string   `json:"reason,omitempty"`
		Summary string   `json:"summary,omitempty"`
		Steps   int      `json:"steps"`
		Waits   []string `json:"waits,omitempty"`
		Halt
	}{out.Answer, out.Reason, out.Summary, out.Steps, out.Waits, haltOf(job.Execution, out)})
	if err != nil {
		return fmt.Errorf("encode a run's result: %w", err)
	}
	result = activity.Storable(result)
	for _, line := range out.Unlogged {
		r.Activity.Record(ctx, tx.Later(), line)
	}
	if out.Unspent != (llm.Usage{}) {
		if err := r.spend(tx, job, out.Unspent); err != nil {
			return err
		}
	}
	message := ""
	if out.Status == execution.Stalled || out.Status == execution.Failed {
		message = fmt.Sprintf("%s: %s", out.Status, out.Reason)
		r.Activity.Record(ctx, tx.Later(), activity.Entry{
			Agent: job.Agent, Surface: job.Execution.Surface, Skill: "reason", Status: activity.Error,
			Input: out.LastMistake.tried(), Output: result, Error: message,
			Execution: job.Execution.ID, ParentExecution: job.Execution.Parent, Attempt: job.Execution.Attempt,
		})
	}
	if err := r.Runs.Leave(tx, job.Execution, out.Status, result, message); err != nil {
		return err
	}
	switch {
	case out.Status.Ended() && r.Release != nil:
		return r.Release(ctx, tx, job.Execution.ID)
	case !out.Status.Ended() && out.Halted:
		return r.Runs.Uncount(tx, job.Execution)
	}
	return nil
}

// holds returns all holds that the run depends on.
func (j Job) holds() lane.Holds {
	return append(lane.Holds{j.Hold}, j.Outer...)
}

// Under puts a job's execution and trace into the context.
func (j Job) Under(ctx context.Context) context.Context {
	return trace.WithExecution(trace.With(ctx, j.Execution.Trace), j.Execution.ID)
}

// isLost reports whether a hold has ended, after which nothing may be written.
func isLost(err error) bool { return errors.Is(err, lane.ErrLost) }
