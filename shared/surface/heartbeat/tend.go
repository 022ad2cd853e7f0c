package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// maxSent is the largest number of outbox rows that one beat sends.
const maxSent = 50

// heal is the phase that heals failing skills, closes abandoned executions, expires approvals,
// clears stale threads and purges old rows.
func (b *beat) heal(ctx context.Context, p *Phase) error {
	l := b.snapshot
	p.Considered = len(l.failing.Findings) + len(l.failing.Cool) + l.orphans.Count() + l.unanswered.Overdue + *l.stale
	for _, step := range []func(context.Context, *Phase) error{b.healSkills, b.closeOrphans, b.endSilent, b.expire, b.clearThreads, b.purge} {
		err := step(ctx, p)
		if errors.Is(err, lane.ErrLost) || err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil { // the other steps and phases do not depend on it
			b.unhealed(ctx, p, err)
		}
	}
	return nil
}

// unhealed notes something that could not be healed. The next beat tries again, and a person is told.
func (b *beat) unhealed(ctx context.Context, p *Phase, err error) {
	p.Failed++
	b.Log.ErrorContext(ctx, "a part of healing failed", "error", err)
}

// healSkills disables skills that keep failing, and restores disabled skills after their rest.
func (b *beat) healSkills(ctx context.Context, p *Phase) error {
	if !b.snapshot.failing.Any() {
		return nil
	}
	registered, err := registered(ctx, b.Registry, b.tick.Workspace)
	if err != nil {
		return err
	}
	err = b.Lanes.InHold(ctx, b.hold, func(ctx context.Context, tx lane.Tx) (err error) {
		b.healed, err = b.Heals.Heal(ctx, tx, b.tick.Workspace, b.snapshot.failing, registered)
		return err
	})
	if err != nil {
		return err
	}
	changed := len(b.healed.Disabled) + len(b.healed.Probing) + len(b.healed.Restored)
	b.Log.InfoContext(ctx, "skills healed", "disabled", len(b.healed.Disabled), "probing", len(b.healed.Probing),
		"restored", len(b.healed.Restored), "outages", len(b.healed.Outages))
	p.Done += changed
	p.healed = &b.healed
	if changed == 0 {
		return nil
	}
	b.skills, err = b.Skills(ctx, b.tick.Workspace, trace.Heartbeat)
	return err
}

// closeOrphans ends executions that no process works on, each under its lane. An execution whose
// lane is held is being worked on again and is left alone.
func (b *beat) closeOrphans(ctx context.Context, p *Phase) error {
	count := 0
	for _, o := range b.snapshot.orphans.Cut {
		if b.share(ctx, reason.Progress{}) != nil {
			break
		}
		request := lane.Request{Workspace: b.tick.Workspace, Lane: o.Lane, Holder: b.hold.Holder, Under: b.hold}
		closed := false
		err := b.Lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			return b.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) (err error) {
				closed, err = b.Heals.Close(ctx, tx, o)
				tx.Release(b.Lanes, h)
				return err
			})
		})
		_, busy := errors.AsType[*lane.BusyError](err)
		switch {
		case busy:
		case errors.Is(err, lane.ErrLost), err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			b.unhealed(ctx, p, fmt.Errorf("close the orphaned execution %s: %w", o.ID, err))
		case closed:
			count++
		}
	}
	if count > 0 {
		b.Log.InfoContext(ctx, "orphaned executions closed", "count", count)
		p.Done += count
	}
	return nil
}

// endSilent ends executions of external agents that have not reported for too long. Executions that
// wait for them continue.
func (b *beat) endSilent(ctx context.Context, p *Phase) error {
	n, err := b.silenced(ctx, b.tick.Workspace, b.snapshot.orphans.Silent, func() bool { return b.share(ctx, reason.Progress{}) == nil })
	p.Done += n
	return err
}

// silenced ends the executions that are still silent, as long as more returns true. It returns how
// many it ended. One that can't be ended does not keep it from the others.
func (h *Heartbeat) silenced(ctx context.Context, ws db.Workspace, ids []string, more func() bool) (n int, err error) {
	for _, id := range ids {
		if !more() {
			break
		}
		silent := false
		failed := h.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) (err error) {
			if silent, err = h.Heals.Silent(ctx, tx, id); err != nil || !silent {
				return err
			}
			return h.Threads.End(ctx, tx, id, execution.Stalled, nil, "nothing was heard of it in its time")
		})
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("end the silent execution %s: %w", id, failed))
		} else if silent {
			h.Log.WarnContext(ctx, "silent execution ended", "execution", id)
			n++
		}
	}
	return n, err
}

// expire denies approvals that nobody answered in time.
func (b *beat) expire(ctx context.Context, p *Phase) error {
	if b.snapshot.unanswered.Overdue == 0 {
		return nil
	}
	n, err := b.expired(ctx, b.tick.Workspace)
	p.Done += n
	return err
}

func (h *Heartbeat) expired(ctx context.Context, ws db.Workspace) (int, error) {
	n, err := h.Approvals.ExpireDue(ctx, ws)
	if err == nil && n > 0 {
		h.Log.InfoContext(ctx, "approvals expired", "count", n)
	}
	return n, err
}

// Tend does the part of the heal phase that others wait for: it denies approvals that nobody
// answered in time, and ends silent executions. It is called between beats.
func (h *Heartbeat) Tend(ctx context.Context, ws db.Workspace) error {
	var b db.Batch
	silent, unanswered := h.Heals.SilentNow(&b), h.Approvals.Pending(&b)
	if err := h.DB.Read(ctx, ws, &b); err != nil {
		return fmt.Errorf("look for what is overdue: %w", err)
	}
	_, err := h.silenced(ctx, ws, *silent, func() bool { return ctx.Err() == nil })
	if unanswered.Overdue > 0 {
		_, failed := h.expired(ctx, ws)
		err = errors.Join(err, failed)
	}
	return err
}

// maxRounds is the largest number of rounds of a sweep or a purge in one beat. The phase's share of
// the beat's time limits them too. The next beats do the rest.
const maxRounds = 20

// purge deletes old rows, including those of lanes that are no longer used.
func (b *beat) purge(ctx context.Context, _ *Phase) error {
	keep := retention(b.settings)
	if !b.snapshot.first.Oldest.Due(keep) {
		return nil
	}
	_, failed := b.Lanes.Sweep(ctx, b.tick.Workspace)
	if b.Sweep != nil {
		failed = errors.Join(failed, b.Sweep(ctx, b.tick.Workspace))
	}
	for round := 1; ; round++ {
		more, err := b.Retention.Purge(ctx, b.tick.Workspace, keep)
		if failed = errors.Join(failed, err); err != nil {
			return failed
		}
		if !more || round == maxRounds || b.share(ctx, reason.Progress{}) != nil {
			b.Log.InfoContext(ctx, "purged what is old", "rounds", round, "more", more)
			return failed
		}
	}
}

// clearThreads frees threads whose locks are stale, and wakes forgotten queues.
func (b *beat) clearThreads(ctx context.Context, p *Phase) error {
	for round, more := 1, *b.snapshot.stale > 0; more; round++ {
		swept, err := b.Threads.Sweep(ctx, b.tick.Workspace, maxSent)
		if err != nil {
			return err
		}
		p.Done += swept.Cleared + swept.Woken
		more = swept.More && round < maxRounds && b.share(ctx, reason.Progress{}) == nil
	}
	return nil
}

// withMargin reserves a third of the remaining time for sending, if there is anything to send.
func (b *beat) withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || !b.sends() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/3))
}

// sends reports whether there is, or may be, something to send.
func (b *beat) sends() bool { return *b.snapshot.unsent+*b.snapshot.stale > 0 }

// topics returns the outbox topics that a beat sends or has another function send.
func (h *Heartbeat) topics() []string { return append(h.Sender.Topics(), h.Elsewhere...) }

// send is the last act of a beat, after it has released its lane. It sends due outbox rows:
// approved calls, turns that continue, messages of freed threads, and what the beat itself
// enqueued. The process that enqueues a row normally sends it at once; a beat sends the rows whose kick
// was lost.
func (b *beat) send(ctx context.Context) error {
	if !b.sends() {
		return nil
	}
	if b.Kick != nil && b.snapshot.elsewhere != nil && *b.snapshot.elsewhere > 0 {
		if err := b.Kick(ctx); err != nil { // the other function still sends on its schedule
			b.Log.WarnContext(ctx, "the sender of messages could not be kicked", "error", err)
		}
	}
	ctx, cancel := lane.WithInnerDeadline(ctx)
	defer cancel()
	sent, err := b.Sender.Drain(ctx, b.tick.Workspace, maxSent)
	b.Log.InfoContext(ctx, "outbox sent", "claimed", sent.Claimed, "sent", sent.Sent, "retried", sent.Retried, "failed", sent.Failed,
		"uncertain", sent.Uncertain, "more", sent.More)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("send what is due: %w", err)
	}
	return nil
}

// oldApproval is how long a call may wait for an answer before a beat raises an alert.
const oldApproval = 24 * time.Hour

// alert records and logs what needs a person.
func (b *beat) alert(ctx context.Context) {
	var alerts []string
	if len(b.report.Phases) > 0 && b.report.Phases[0].Failed > 0 {
		alerts = append(alerts, fmt.Sprintf("what could not be healed: %d; the log has the errors", b.report.Phases[0].Failed))
	}
	if b.modelOff != "" {
		if why := b.Reason.Paused(ctx, b.tick.Workspace); why != "" {
			alerts = append(alerts, "no model can be asked: "+why)
		}
	}
	u := b.snapshot.unanswered
	if u.Count > 0 && b.snapshot.hold.Until().Sub(*u.Oldest) > oldApproval {
		alerts = append(alerts, fmt.Sprintf("approvals wait for an answer: %d, the first since %s", u.Count, u.Oldest.UTC().Format(time.RFC3339)))
	}
	for _, why := range alerts {
		b.Log.ErrorContext(ctx, "a person is needed", "why", why) // an alarm matches this message
	}
	b.report.Alerts = alerts
}

// registered lists all skills of a workspace, including disabled ones.
func registered(ctx context.Context, r *skill.Registry, ws db.Workspace) (all []skill.Definition, err error) {
	for f := (skill.Filter{Limit: 200}); ; {
		page, err := r.List(ctx, ws, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if f.After = page.Next; f.After == "" {
			return all, nil
		}
	}
}
