package heartbeat

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// maxSent is the most rows of the outbox that one beat sends.
const maxSent = 50

// heal is the phase that looks after what the beat stands on: what failed, what was
// left behind, what is old, and what was decided and is still to be done.
func (b *beat) heal(ctx context.Context, p *Phase) error {
	l := b.look
	p.Considered = len(l.failing.Findings) + len(l.failing.Cool) + len(*l.orphans) + l.unanswered.Overdue + *l.unsent + *l.stale
	for _, step := range []func(context.Context, *Phase) error{b.healSkills, b.closeOrphans, b.expire, b.purge, b.send} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// healSkills takes skills out of use that keep failing, and puts those back that
// have rested.
func (b *beat) healSkills(ctx context.Context, p *Phase) error {
	if !b.look.failing.Any() {
		return nil
	}
	registered, err := b.Registered(ctx, b.tick.Workspace)
	if err != nil {
		return err
	}
	err = b.Lanes.InHold(ctx, b.hold, func(ctx context.Context, tx lane.Tx) (err error) {
		b.healed, err = b.Heals.Heal(ctx, tx, b.tick.Workspace, b.look.failing, registered)
		return err
	})
	if err != nil {
		return err
	}
	changed := len(b.healed.Disabled) + len(b.healed.Probing) + len(b.healed.Restored)
	b.Slog.InfoContext(ctx, "skills healed", "disabled", len(b.healed.Disabled), "probing", len(b.healed.Probing),
		"restored", len(b.healed.Restored), "outages", len(b.healed.Outages))
	p.Done += changed
	p.healed = &b.healed
	if changed == 0 {
		return nil
	}
	b.skills, err = b.Skills(ctx, b.tick.Workspace, trace.Heartbeat)
	return err
}

// closeOrphans ends executions that nobody works on any more.
func (b *beat) closeOrphans(ctx context.Context, p *Phase) error {
	if len(*b.look.orphans) == 0 {
		return nil
	}
	var batch db.Batch
	b.Heals.Close(&batch, *b.look.orphans)
	if err := b.DB.Do(ctx, b.tick.Workspace, &batch); err != nil {
		return fmt.Errorf("close orphaned executions: %w", err)
	}
	b.Slog.InfoContext(ctx, "orphaned executions closed", "count", len(*b.look.orphans))
	p.Done += len(*b.look.orphans)
	return nil
}

// expire denies what nobody has answered in time.
func (b *beat) expire(ctx context.Context, p *Phase) error {
	if b.look.unanswered.Overdue == 0 {
		return nil
	}
	n, err := b.Approvals.ExpireDue(ctx, b.tick.Workspace)
	if err != nil {
		return err
	}
	b.Slog.InfoContext(ctx, "approvals expired", "count", n)
	p.Done += n
	return nil
}

// maxPurges is the most rounds of a purge that one beat makes. The phase's share of
// the beat's time bounds them too; what is left goes with the next beats.
const maxPurges = 20

// purge lets go of what is old, and of the rows of lanes that nobody takes any more.
func (b *beat) purge(ctx context.Context, _ *Phase) error {
	keep := retention(b.settings)
	if !b.look.oldest.Due(keep) {
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
		more, err := b.Heals.Purge(ctx, b.tick.Workspace, keep)
		if err != nil {
			return err
		}
		if !more || round == maxPurges || b.share(ctx, reason.Progress{}) != nil {
			b.Slog.InfoContext(ctx, "purged what is old", "rounds", round, "more", more)
			return nil
		}
	}
}

// send does what was decided and is still to be done: calls that a person has
// approved, executions that are to go on, messages whose thread is free again. Whoever
// decided sends at once; a beat finds what got lost.
func (b *beat) send(ctx context.Context, p *Phase) error {
	if *b.look.stale > 0 {
		swept, err := b.Threads.Sweep(ctx, b.tick.Workspace, maxSent)
		if err != nil {
			return err
		}
		p.Done += swept.Cleared + swept.Woken
	}
	if *b.look.unsent+*b.look.stale == 0 {
		return nil
	}
	sent, err := b.Sender.Drain(ctx, b.tick.Workspace, maxSent)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("send what is due: %w", err)
	}
	b.Slog.InfoContext(ctx, "outbox sent", "claimed", sent.Claimed, "sent", sent.Sent, "retried", sent.Retried, "failed", sent.Failed, "uncertain", sent.Uncertain)
	p.Done += sent.Sent
	p.Failed += sent.Failed
	if sent.More {
		p.Left++
	}
	return nil
}

// Registered lists all skills of a workspace that a registry keeps.
func Registered(r *skill.Registry) func(context.Context, db.Workspace) ([]skill.Definition, error) {
	return func(ctx context.Context, ws db.Workspace) (all []skill.Definition, err error) {
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
}
