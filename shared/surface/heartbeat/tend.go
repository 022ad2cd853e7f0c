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

// maxSent is the most rows of the outbox that one beat sends.
const maxSent = 50

// heal is the phase that looks after what the beat stands on: what failed, what was
// left behind, and what is old.
func (b *beat) heal(ctx context.Context, p *Phase) error {
	l := b.snapshot
	p.Considered = len(l.failing.Findings) + len(l.failing.Cool) + l.orphans.Count() + l.unanswered.Overdue + *l.stale
	for _, step := range []func(context.Context, *Phase) error{b.healSkills, b.closeOrphans, b.endSilent, b.expire, b.clearThreads, b.purge} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// healSkills takes skills out of use that keep failing, and puts those back that
// have rested.
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

// closeOrphans ends executions that nobody works on any more, each under its lane: one
// whose lane is taken is worked on again.
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
		if _, busy := errors.AsType[*lane.BusyError](err); busy {
			continue
		}
		if err != nil {
			return err
		}
		if closed {
			count++
		}
	}
	if count > 0 {
		b.Log.InfoContext(ctx, "orphaned executions closed", "count", count)
		p.Done += count
	}
	return nil
}

// endSilent ends executions that agents elsewhere have begun and of which nothing was
// heard for long: who waits for them goes on.
func (b *beat) endSilent(ctx context.Context, p *Phase) error {
	n, err := b.silenced(ctx, b.tick.Workspace, b.snapshot.orphans.Silent, func() bool { return b.share(ctx, reason.Progress{}) == nil })
	p.Done += n
	return err
}

// silenced ends those of the executions that are silent still, while more says so.
func (h *Heartbeat) silenced(ctx context.Context, ws db.Workspace, ids []string, more func() bool) (n int, err error) {
	for _, id := range ids {
		if !more() {
			return n, nil
		}
		silent := false
		err := h.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) (err error) {
			if silent, err = h.Heals.Silent(ctx, tx, id); err != nil || !silent {
				return err
			}
			return h.Threads.End(ctx, tx, id, execution.Stalled, nil, "nothing was heard of it in its time")
		})
		if err != nil {
			return n, fmt.Errorf("end a silent execution: %w", err)
		}
		if silent {
			h.Log.WarnContext(ctx, "silent execution ended", "execution", id)
			n++
		}
	}
	return n, nil
}

// expire denies what nobody has answered in time.
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

// Tend does what of a beat's heal phase others wait for: it denies approvals that
// nobody has answered in time, and ends executions of which nothing was heard in
// theirs. It is called between beats.
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

// maxRounds is the most rounds of a sweep, or a purge, that one beat makes. The phase's
// share of the beat's time bounds them too; what is left goes with the next beats.
const maxRounds = 20

// purge lets go of what is old, and of the rows of lanes that nobody takes any more.
func (b *beat) purge(ctx context.Context, _ *Phase) error {
	keep := retention(b.settings)
	if !b.snapshot.first.Oldest.Due(keep) {
		return nil
	}
	if _, err := b.Lanes.Sweep(ctx, b.tick.Workspace); err != nil {
		return err
	}
	if b.Sweep != nil {
		if err := b.Sweep(ctx, b.tick.Workspace); err != nil {
			return err
		}
	}
	for round := 1; ; round++ {
		more, err := b.Retention.Purge(ctx, b.tick.Workspace, keep)
		if err != nil {
			return err
		}
		if !more || round == maxRounds || b.share(ctx, reason.Progress{}) != nil {
			b.Log.InfoContext(ctx, "purged what is old", "rounds", round, "more", more)
			return nil
		}
	}
}

// clearThreads lets go of threads whose locks are stale, and wakes forgotten queues.
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

// withMargin leaves a third of the time to what is to be sent, if there is anything.
func (b *beat) withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || !b.sends() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/3))
}

// sends reports whether there is, or may be, something to send.
func (b *beat) sends() bool { return *b.snapshot.unsent+*b.snapshot.stale > 0 }

// topics are those of the outbox whose rows a beat sends, or has another function send.
func (h *Heartbeat) topics() []string { return append(h.Sender.Topics(), h.Elsewhere...) }

// send is the last act of a beat, without its lane: it does what was decided and is
// still to be done, calls that a person has approved, turns that are to go on, messages
// whose thread is free again, and what was said in the beat itself. Whoever decided
// sends at once; a beat finds what got lost.
func (b *beat) send(ctx context.Context) error {
	if !b.sends() {
		return nil
	}
	if b.Kick != nil && b.snapshot.elsewhere != nil && *b.snapshot.elsewhere > 0 {
		if err := b.Kick(ctx); err != nil { // what it would send it sends on its schedule
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

// oldApproval is how long a call may wait for a person before a beat says so.
const oldApproval = 24 * time.Hour

// alert says what a person is needed for.
func (b *beat) alert(ctx context.Context) {
	var alerts []string
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
		b.Log.ErrorContext(ctx, "a person is needed", "why", why) // an alarm goes by this message
	}
	b.report.Alerts = alerts
}

// registered lists all skills of a workspace, the disabled ones among them.
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
