// Package heartbeat runs the agent on a schedule. A beat makes plans for objectives that have none,
// takes the next step of each plan, runs automations, and heals and cleans up. A beat can be killed
// at any instant; the next one continues its work.
package heartbeat

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/parts"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Heartbeat runs beats. It keeps no state between them. Beats of different workspaces may run
// concurrently.
type Heartbeat struct {
	*parts.Parts
	// Sweep deletes stored rows of other packages that nobody needs any more; nil: nothing is
	// deleted.
	Sweep func(context.Context, db.Workspace) error
	// Fan hands a workspace's beat to another invocation. It is called concurrently. If it is nil,
	// the beat runs in this process.
	Fan func(context.Context, Tick) error
	// Elsewhere lists the outbox topics whose rows another function sends. Kick asks that function
	// to send now and does not wait for it. If Kick is nil, the function sends on its own schedule.
	Elsewhere []string
	Kick      func(context.Context) error
}

// beat runs the beat of one workspace. It reads the state and takes the lane in one round trip,
// then decides, works and reports.
func (h *Heartbeat) beat(ctx context.Context, t Tick) (report Report, err error) {
	begun := h.Clock()
	if t.Trace == "" {
		t.Trace = h.Traces.New(trace.Heartbeat)
	}
	if t.ExecutionID == "" {
		t.ExecutionID = h.IDs()
	}
	ctx, cancel := lane.WithLastWrites(trace.WithExecution(trace.WithWorkspace(trace.With(ctx, t.Trace), string(t.Workspace)), t.ExecutionID))
	defer cancel()
	b := &beat{Heartbeat: h, tick: t, begun: begun, report: Report{
		Workspace: string(t.Workspace), TraceID: string(t.Trace), Phases: []Phase{}, Slot: slotKey(t),
	}}
	err = b.run(ctx)
	b.report.DurationMS = h.Clock().Sub(begun).Milliseconds()
	b.endSpan(err)
	if errors.Is(err, lane.ErrLost) {
		h.Log.ErrorContext(ctx, "beat lost the lane and changed nothing after that", "error", err)
		b.report.Outcome, b.report.Reason, err = Lost, err.Error(), nil
	}
	if err != nil {
		return b.report, fmt.Errorf("beat of workspace %s: %w", t.Workspace, err)
	}
	h.Meters.Beat(string(b.report.Outcome), h.Clock().Sub(begun))
	facts := []any{"outcome", b.report.Outcome, "reason", b.report.Reason, "left", b.report.Left,
		"tokens", b.report.Tokens, "duration_ms", b.report.DurationMS}
	if b.report.PutOffTo != nil {
		facts = append(facts, "put_off_to", *b.report.PutOffTo)
	}
	h.Log.InfoContext(ctx, "beat ended", facts...)
	return b.report, nil
}

// slotKey returns the key of a tick's slot; empty for a beat by hand.
func slotKey(t Tick) string {
	if t.Slot.IsZero() {
		return ""
	}
	return slotPrefix + string(t.Workspace) + ":" + slotTime(t)
}

// beat is the state of one beat.
type beat struct {
	*Heartbeat
	tick         Tick
	begun        time.Time
	hold         *lane.Hold
	exec         execution.Execution
	span         *span.Span // when exec is known
	settings     workspace.Settings
	skills       *skill.Set
	snapshot     snapshot
	caps         caps
	until        float64 // share of the beat's time and tokens that may be used so far
	working      time.Time
	halted       string // why no further work may begin; empty: it may
	modelOff     string // why no model may be asked any more; empty: one may
	modelChecked bool   // whether modelOff was determined
	report       Report

	unlogged   []Phase // have no line in the activity log yet
	healed     heal.Report
	done       []doneBrief     // the work that was done, for the runs that come later
	trust      execution.Trust // the lowest trust of the text in done
	reflection string
}

func (b *beat) run(ctx context.Context) error {
	look, err := b.enter(ctx, time.Now().Add(b.tick.Wait))
	if busy, ok := errors.AsType[*lane.BusyError](err); ok {
		return b.taken(ctx, busy.Info)
	}
	if err != nil {
		return err
	}
	if err = b.decide(ctx, look); err != nil {
		err = b.abandon(ctx, err)
	}
	if errors.Is(err, lane.ErrLost) || b.report.Outcome == Skipped || b.report.Outcome == Duplicate {
		return err
	}
	return errors.Join(err, b.send(ctx))
}

// decide runs a beat that holds its lane: it skips it, ends it as idle, or runs its phases.
func (b *beat) decide(ctx context.Context, snapshot snapshot) error {
	b.snapshot, b.trust = snapshot, execution.Trusted
	if err := fault.Point(ctx, "beat.acquired", b.report.Slot); err != nil {
		return err
	}
	var err error
	b.settings, err = snapshot.settings()
	if err != nil || b.tick.Full || snapshot.first.Work || !snapshot.rests(b.settings) {
		err = errors.Join(err, b.lookAround(ctx, &snapshot))
		b.snapshot = snapshot
	}
	if err != nil {
		return err
	}
	b.caps = newCaps(b.settings)
	off := snapshot.switches.Run(activity.Operator, "")
	switch {
	case off != "":
		return b.skip(ctx, off, lane.Info{})
	case b.tick.Slot.After(b.hold.Until().Add(maxAhead)):
		return errors.New("the slot lies in the future: every later tick would count as superseded by it")
	case snapshot.slotEnded(b.report.Slot):
		b.report.Outcome, b.report.Reason = Duplicate, alreadyRun
		return b.Lanes.Drop(ctx, b.hold)
	case b.inTheWay(snapshot.operate):
		return b.later(ctx, *snapshot.operate)
	case snapshot.quiet(b.settings) && !b.tick.Full:
		return b.idle(ctx)
	}
	inner, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	if b.skills, err = b.Skills(ctx, b.tick.Workspace, trace.Heartbeat); err != nil {
		return err
	}
	if err := b.begin(inner); err != nil {
		return err
	}
	work, done := b.withMargin(inner)
	defer done()
	if err := b.phases(b.under(work)); err != nil {
		return err
	}
	return b.end(b.under(ctx))
}

// maxAhead is the longest time by which a slot may be ahead of the database's clock.
const maxAhead = time.Hour

// under puts the beat's execution into the context. A resumed beat keeps its own id and trace.
func (b *beat) under(ctx context.Context) context.Context {
	return trace.WithExecution(trace.With(ctx, b.exec.Trace), b.exec.ID)
}

// snapshot is the state that a beat decides on. The first fields are read in the round trip that
// takes the lane. The other fields are read in a second round trip, if the first ones show that
// there may be work; otherwise they are empty.
type snapshot struct {
	hold     *lane.Hold
	operate  *lane.Info
	settings func() (workspace.Settings, error)
	first    *quiet.Look

	due         *[]objective.Due
	slot        *[]execution.Execution // executions of this slot or a later one
	unsent      *int                   // rows of the outbox that are due
	elsewhere   *int                   // rows due when the beat ends that another function sends; nil: none
	stale       *int                   // stale locks and forgotten queues of threads
	unanswered  *approval.Unanswered
	open        *[]execution.Execution // executions that beats began and did not end, those of beats included
	automations *[]automation.Due
	failing     *heal.Look
	orphans     *heal.Orphans // executions that no process works on
	switches    *halt.Switches
	persona     *persona.Found
	pace        func() budget.Pace // how fast the budgets of people let work go on
}

// nothing returns the snapshot with all fields of the second round trip empty.
func (l snapshot) nothing() snapshot {
	l.due, l.slot, l.open, l.automations = new([]objective.Due), new([]execution.Execution), new([]execution.Execution), new([]automation.Due)
	l.unsent, l.stale, l.unanswered = new(int), new(int), new(approval.Unanswered)
	l.failing, l.orphans, l.switches, l.persona = new(heal.Look), new(heal.Orphans), new(halt.Switches), new(persona.Found)
	l.pace = func() budget.Pace { return budget.Continue }
	return l
}

// quiet reports whether there is no work, including reflections.
func (l snapshot) quiet(s workspace.Settings) bool {
	return len(*l.due)+len(*l.open)+*l.unsent+*l.stale+l.unanswered.Overdue+len(*l.automations)+l.orphans.Count() == 0 &&
		!l.failing.Any() && l.rests(s)
}

// rests reports whether neither a purge nor a reflection is due.
func (l snapshot) rests(s workspace.Settings) bool {
	return !l.first.Oldest.Due(retention(s)) && !l.reflects(s, false)
}

// reflects reports whether a reflection is due. With full, the time since the last one does not
// count.
func (l snapshot) reflects(s workspace.Settings, full bool) bool {
	last := l.first.Stirred
	rested := last.At == nil || l.hold.Until().Sub(*last.At) > time.Duration(s.ReflectHours)*time.Hour
	return s.ReflectHours > 0 && last.Since && (rested || full)
}

// retention returns how long the workspace keeps its ended rows.
func retention(s workspace.Settings) retain.Retention {
	const day = 24 * time.Hour
	return retain.Retention{
		Activity: time.Duration(s.ActivityDays) * day, Events: time.Duration(s.EventDays) * day, Outbox: time.Duration(s.OutboxDays) * day,
		Inbox: time.Duration(max(s.InboxDays, s.DeliveryDays)) * day, // a row of the inbox has the id of its delivery
	}
}

// maxDue is the largest number of objectives that one beat considers.
const maxDue = 200

// function names the holders of a beat's lane.
const function = "heartbeat"

// enter takes the lane and reads the first part of the snapshot, in one round trip. It waits until
// the given time for the lane. A beat by hand also waits for the end of a turn.
func (b *beat) enter(ctx context.Context, until time.Time) (snapshot, error) {
	request := lane.Request{
		Workspace: b.tick.Workspace, Lane: lane.Heartbeat, Holder: lane.NewHolder(function, b.Instance, b.tick.Trace),
	}
	var l snapshot
	ask := func(batch *db.Batch) {
		l = snapshot{
			operate:  b.Lanes.PeekIn(batch, lane.Operate),
			settings: b.Workspaces.Settings(batch),
			first: b.Quiet.Look(batch, quiet.Question{
				Slot: b.report.Slot, Topics: b.topics(), Reflection: "heartbeat." + reflecting.name, Back: reflectBack,
			}),
		}.nothing()
	}
	for {
		hold, err := b.Lanes.Take(ctx, request, lane.Wait{Limit: time.Until(until)}, ask)
		b.hold, l.hold = hold, hold
		if err != nil || !b.tick.byHand() || !l.operate.Held() || time.Until(until) <= 0 {
			return l, err
		}
		// The lane stays free while the beat waits.
		if err := b.Lanes.Drop(ctx, hold); err != nil {
			return l, err
		}
		if err := b.await(ctx, until); err != nil {
			return l, err
		}
	}
}

// lookAround reads the second part of the snapshot, in one round trip.
func (b *beat) lookAround(ctx context.Context, l *snapshot) error {
	var batch db.Batch
	l.due = b.Objectives.Due(&batch, maxDue)
	l.open = b.Runs.Open(&batch, trace.Heartbeat, lane.Heartbeat)
	l.unsent = b.Outbox.Due(&batch, b.topics()...)
	l.stale = b.Threads.Due(&batch)
	l.unanswered = b.Approvals.Pending(&batch)
	l.automations = b.Automations.Due(&batch, maxDue)
	l.failing = b.Heals.Look(&batch)
	l.orphans = b.Heals.Orphans(&batch)
	l.switches = b.Switches.On(&batch)
	l.persona = b.Personas.Newest(&batch, persona.Flowpilot)
	l.pace = b.Budgets.PaceIn(&batch, activity.Operator, activity.Operator+":"+string(trace.Heartbeat))
	if b.report.Slot != "" {
		l.slot = b.Runs.Slot(&batch, trace.Heartbeat, b.report.Slot)
	}
	if err := b.DB.Read(ctx, b.tick.Workspace, &batch); err != nil {
		return fmt.Errorf("look for what there is to do: %w", err)
	}
	return nil
}

// slotEnded reports whether this slot or a later one was run. A beat of this slot that was killed
// has not ended; this beat resumes it.
func (l snapshot) slotEnded(slot string) bool {
	if len(*l.slot) == 0 {
		return false
	}
	newest := (*l.slot)[0]
	return newest.Slot != slot || newest.Status != execution.Running
}

// loose returns the objectives that are not due but have unfinished executions. Such an objective
// was completed or paused while an execution worked on it.
func (l snapshot) loose() []objective.Due {
	var found []objective.Due
	for _, e := range *l.open {
		id, ok := lane.ObjectiveOf(e.Subject)
		if ok && !slices.ContainsFunc(*l.due, func(d objective.Due) bool { return d.ID == id }) {
			found = append(found, objective.Due{ID: id})
		}
	}
	return found
}

// idle ends a beat that has no work. One transaction stores its execution and its line in the
// activity log and releases the lane. No model is called.
func (b *beat) idle(ctx context.Context) error {
	b.report.Outcome, b.report.ExecutionID = Idle, b.tick.ExecutionID
	b.alert(ctx)
	b.exec = b.execution()
	err := b.Lanes.InHold(ctx, b.hold, b.close)
	if err == nil {
		b.beginSpan(ctx, false)
	}
	return err
}

// beginSpan begins the span of the beat when its execution is stored.
func (b *beat) beginSpan(ctx context.Context, resumed bool) {
	r := span.Run{
		Trace: b.exec.Trace, Execution: b.exec.ID, Parent: b.exec.Parent, Workspace: string(b.tick.Workspace),
		Surface: trace.Heartbeat, Agent: b.exec.Agent, Unit: "beat", Attempt: b.exec.Attempt, Resumed: resumed, Begun: b.begun,
	}
	b.span = b.Reason.Spans.Run(ctx, r)
}

// endSpan ends the span of a beat that ended with err.
func (b *beat) endSpan(err error) {
	if err != nil {
		b.span.Fail(work.ErrorClass(err))
	} else {
		b.span.Text("lanekeeper.status", string(b.report.Outcome))
	}
	b.span.End()
}

func (b *beat) execution() execution.Execution {
	return execution.Execution{
		ID: b.tick.ExecutionID, Agent: activity.Operator, Surface: trace.Heartbeat, Trace: b.tick.Trace,
		Subject: lane.Heartbeat, Slot: b.report.Slot, Attempt: 1,
	}
}

// begin starts the beat's execution. If a beat of this slot was killed, or if the tick names an
// execution, begin resumes that one instead. It closes unfinished beats of earlier slots; their
// work continues in this one.
func (b *beat) begin(ctx context.Context) error {
	resumed := false
	err := b.Lanes.InHold(ctx, b.hold, func(ctx context.Context, tx lane.Tx) error {
		resumed = false
		for _, old := range *b.snapshot.open {
			if old.Subject != lane.Heartbeat {
				continue // a piece of work, which the phases resume
			}
			if old.ID == b.tick.ExecutionID || old.Slot != "" && old.Slot == b.report.Slot {
				b.exec, resumed = old, true
				b.leaveKick(ctx, tx)
				return b.Runs.Resume(ctx, tx, &b.exec)
			}
			status, message := execution.Failed, "it was cut off; its work went on in "+string(b.tick.Trace)
			if old.Status == execution.Parked {
				status, message = execution.Completed, ""
			}
			if err := b.Runs.Leave(tx, old, status, old.Result, message); err != nil {
				return err
			}
		}
		b.exec = b.execution()
		b.leaveKick(ctx, tx)
		return b.Runs.Start(tx, b.exec)
	})
	if err != nil {
		return err
	}
	b.beginSpan(ctx, resumed)
	if b.tick.Begun != nil {
		close(b.tick.Begun)
	}
	b.report.ExecutionID, b.report.TraceID = b.exec.ID, string(b.exec.Trace)
	b.Log.InfoContext(b.under(ctx), "beat started", "slot", b.report.Slot, "objectives", len(*b.snapshot.due), "attempt", b.exec.Attempt)
	return fault.Point(ctx, "beat.started", b.exec.ID)
}

// end writes the report. One transaction writes the execution and the activity and releases the
// lane. It may use the time after the inner deadline.
func (b *beat) end(ctx context.Context) error {
	if err := fault.Point(ctx, "beat.ending", b.exec.ID); err != nil {
		return err
	}
	if b.report.Outcome == "" {
		b.report.Outcome = Completed
	}
	b.alert(ctx)
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	var unsent, elsewhere *int
	err := b.Lanes.InHold(last, b.hold, func(ctx context.Context, tx lane.Tx) error {
		unsent = b.Outbox.Due(tx.Later(), b.topics()...)
		if len(b.Elsewhere) > 0 {
			elsewhere = b.Outbox.Due(tx.Later(), b.Elsewhere...)
		}
		return b.close(ctx, tx)
	})
	if err == nil {
		b.snapshot.unsent, b.snapshot.elsewhere = unsent, elsewhere // including the rows that this beat enqueued
	}
	return err
}

// close queues the beat's last writes.
func (b *beat) close(ctx context.Context, tx lane.Tx) error {
	took := b.Clock().Sub(b.begun)
	b.report.DurationMS = took.Milliseconds()
	status := execution.Completed
	if b.report.Outcome == Parked {
		status = execution.Parked
	}
	b.logPhases(b.under(ctx), tx)
	b.record(b.under(ctx), tx.Later(), activity.Success, took)
	result := encode(b.report.stored())
	if b.report.Outcome == Idle {
		if err := b.Runs.Record(tx, b.exec, result); err != nil {
			return err
		}
	} else {
		b.Outbox.Withdraw(tx.Later(), kickOf(b.exec))
		if err := b.Runs.Leave(tx, b.exec, status, result, ""); err != nil {
			return err
		}
	}
	tx.Release(b.Lanes, b.hold)
	return nil
}

// abandon releases the lane after an error, so that a retry need not wait until the hold expires.
// The execution stays running and is resumed.
func (b *beat) abandon(ctx context.Context, cause error) error {
	last, cancel := lane.LastWrites(ctx)
	defer cancel()
	if err := b.Lanes.Drop(last, b.hold); err != nil && !errors.Is(err, lane.ErrLost) {
		return errors.Join(cause, err)
	}
	return cause
}

func (b *beat) record(ctx context.Context, batch *db.Batch, status activity.Status, took time.Duration) {
	b.Activity.Record(ctx, batch, activity.Entry{
		Agent: activity.Operator, Surface: trace.Heartbeat, Skill: "heartbeat", Status: status,
		Output: encode(b.report.stored()), Duration: took, Attempt: max(1, b.exec.Attempt),
	})
}
