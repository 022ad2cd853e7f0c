package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// Topic is the topic of outbox rows that continue executions.
const Topic = "execution"

// goesOn is the payload of such a row.
type goesOn struct {
	Execution string `json:"execution"`
}

// KickFor returns the row that continues an execution. It is due after the given delay.
func KickFor(e execution.Execution, after time.Duration) outbox.Row {
	return outbox.Row{
		Kind: outbox.Kick, Topic: Topic, Key: kickOf(e.ID), Payload: encode(goesOn{e.ID}), MaxAttempts: maxAttempts, Delay: after,
	}
}

var _ outbox.Endless = (*Runner)(nil)

// Endless implements [outbox.Endless]: a row ends with its execution, which nothing else would continue. The unit of
// work gives up what fails too often.
func (r *Runner) Endless() bool { return true }

// seldom is the delay between tries after maxAttempts of them.
const seldom = 30 * time.Minute

// Handle continues the execution of an outbox row until it has ended. After maxAttempts it tries seldom. It is called
// by the outbox's sender.
func (r *Runner) Handle(ctx context.Context, c outbox.Claimed) error {
	err := r.handle(ctx, c)
	_, later := errors.AsType[*outbox.LaterError](err)
	_, permanent := errors.AsType[*outbox.PermanentError](err)
	if err == nil || !c.Last() || later || permanent || errors.Is(err, db.ErrNoRows) {
		return err
	}
	return outbox.LaterIn(seldom, err)
}

func (r *Runner) handle(ctx context.Context, c outbox.Claimed) error {
	var asked goesOn
	if err := json.Unmarshal(c.Payload, &asked); err != nil || asked.Execution == "" {
		return outbox.Permanently(errors.New("the row names no execution"))
	}
	e, err := r.Runs.Get(ctx, c.Workspace, asked.Execution)
	if err != nil || e.Status.Ended() {
		return err
	}
	ctx = trace.WithExecution(trace.With(ctx, e.Trace), e.ID)
	goOn := r.goOn
	switch a, ok := r.askedOf(e); {
	case ok:
		goOn = r.talkOn
	case a.Task == talking:
		return fmt.Errorf("go on with turn %s: surface %s has no conversations here", e.ID, e.Surface)
	case byHand(e):
		goOn = r.endByHand
	}
	out, err := goOn(ctx, c.Workspace, e)
	if err == nil && out.Status == execution.Parked { // the unit limits how often that may happen
		again := time.Millisecond
		if out.Halted { // it waits for what others do
			again = speaksLater
		}
		return outbox.LaterIn(again, fmt.Errorf("execution %s parked", e.ID))
	}
	if busy, ok := errors.AsType[*lane.BusyError](err); ok { // the holder of the lane works on it, or is dead
		if ctx.Err() != nil { // the process ends: the next one need not wait
			return outbox.LaterIn(time.Millisecond, err)
		}
		return outbox.LaterIn(max(time.Second, min(busy.Remaining, lookAgain)), err)
	}
	if err != nil && ctx.Err() != nil {
		return outbox.Unfinished(err)
	}
	return err
}

// lookAgain is the longest delay before the next check whether an execution is worked on.
const lookAgain = 10 * time.Second

// speaksLater is the delay before the next try of a turn in whose thread another execution speaks.
// Until then the turn keeps its place in line.
const speaksLater = execution.Place * 3 / 4

// goOn continues an execution that is not a turn, until it has ended. Its outbox row is its kick.
func (r *Runner) goOn(ctx context.Context, ws db.Workspace, e execution.Execution) (work.Outcome, error) {
	waits := r.waitsOf(e)
	out, err := r.do(ctx, ws, "operate", e, work.Unit{
		Name: "fork", Look: waits.look, Enter: waits.enter, Begin: resume,
		Act: func(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
			var b db.Batch
			read := r.readBasis(&b, e)
			if err := r.DB.Read(ctx, ws, &b); err != nil {
				return out, fmt.Errorf("read what an execution works by: %w", err)
			}
			by, err := read()
			if err != nil {
				return out, err
			}
			job.Model, job.Temperature = by.persona.Model, by.persona.Temperature
			if job.Journal, err = r.Runs.Journal(ctx, ws, e.ID, 0); err != nil {
				return out, err
			}
			skills, err := r.Skills(ctx, ws, e.Surface)
			if err != nil {
				return out, err
			}
			var names []string
			if job.System, names, err = reason.StartOf(job.Journal); err != nil {
				return out, err
			}
			return r.Through(ctx, r.bounded(job, skills.Only(names...), by.settings))
		},
	})
	if err == nil && out.Halted {
		err = stillHalted(e, out)
	}
	return out, err
}

// cutOff is why a call by hand ends whose process is gone.
const cutOff = "the call was cut off, and a call by hand is not made again; the trace shows how far it came"

// endByHand ends a call by hand that was cut off. Its caller got no response and may repeat it, so it does not
// continue. A call that had begun may have had its effect: that is recorded.
func (r *Runner) endByHand(ctx context.Context, ws db.Workspace, e execution.Execution) (work.Outcome, error) {
	return r.do(ctx, ws, "operate", e, work.Unit{
		Name: "hand", Begin: resume,
		Act: func(ctx context.Context, job reason.Job) (out reason.Outcome, err error) {
			if job.Journal, err = r.Runs.Journal(ctx, ws, e.ID, 0); err != nil {
				return out, err
			}
			if slices.ContainsFunc(job.Journal, func(e execution.Entry) bool { return e.Kind == execution.Called }) {
				if job.Skills, err = r.Skills(ctx, ws, e.Surface); err != nil {
					return out, err
				}
				job.Once = true
				if _, out, err = r.Reason.RunCallByHand(ctx, job, "", nil); err != nil {
					return out, err
				}
			}
			out.Status, out.Reason = execution.Failed, cutOff
			return out, nil
		},
	})
}

// resume resumes the open execution.
func resume(ctx context.Context, s *work.Start) error { return s.Resume(ctx, s.Open[0]) }

// patience is how long a turn that continues by itself waits for its lane.
const patience = 30 * time.Second

// talkOn continues a turn that was cut off or that waited for a person.
func (r *Runner) talkOn(ctx context.Context, ws db.Workspace, e execution.Execution) (work.Outcome, error) {
	a, _ := r.askedOf(e)
	kind, _ := r.kind(e.Surface)
	s := &turn{Runner: r, kind: kind, asked: a, ws: ws, exec: e, started: true, resumed: true}
	waits := r.waitsOf(e)
	unit := s.unit()
	unit.Look = waits.look
	unit.Enter = func(ctx context.Context, entry *work.Entry) error {
		if err := waits.enter(ctx, entry); err != nil {
			return err
		}
		return s.enter(ctx, entry, s.follow)
	}
	out, err := r.do(ctx, ws, kind.Name, e, unit)
	if err == nil && kind.Waits && out.Status == execution.Parked && out.Halted {
		err = stillHalted(e, out)
	}
	return out, err
}

// stillHalted has an execution tried again later, because the cause of the halt does not end at once.
func stillHalted(e execution.Execution, out work.Outcome) error {
	return fmt.Errorf("execution %s is halted: %s", e.ID, out.Reason)
}

// GoOn adds to a batch that the turn of a dead process continues at once.
func (r *Runner) GoOn(b *db.Batch, execution string) { GoOn(r.Outbox, b, execution) }

// GoOn is [Runner.GoOn] for who has no runner.
func GoOn(rows *outbox.Store, b *db.Batch, execution string) { rows.DueNow(b, kickOf(execution)) }

// KeepPlaces adds to a batch that overdue turns, which no process has continued, keep their places
// in line.
func (r *Runner) KeepPlaces(b *db.Batch) { r.Outbox.DueAnew(b, Topic) }
