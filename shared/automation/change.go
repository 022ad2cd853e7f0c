package automation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Create makes an automation and answers it as it stands then. NextRunAt, where it is
// given, takes the place of the schedule's first time. Errors: [invalid.Error],
// [ErrTaken], [ErrFull].
func (s *Store) Create(ctx context.Context, tx Tx, a Automation) (Automation, error) {
	var rows int
	a.due = a.NextRunAt
	a.now = time.Now() // the schedule is worked out below, by the database's clock
	if err := a.check(); err != nil {
		return Automation{}, err
	}
	tx.Later().Exec(s.q.LockHead) // so that two at once don't pass the limit
	if err := tx.One(ctx, []any{&a.now, &rows}, s.q.Now); err != nil {
		return Automation{}, fmt.Errorf("create an automation: %w", err)
	}
	if rows >= Max {
		return Automation{}, ErrFull
	}
	if !a.Enabled {
		a.DisabledBy = skill.Human
	}
	if err := a.check(); err != nil {
		return Automation{}, err
	}
	var written []Automation
	err := tx.Each(ctx, collect(&written), s.q.Insert, append(append([]any{s.ids()}, a.values()...), a.CreatedBy)...)
	if errors.Is(err, db.ErrUnique) {
		return Automation{}, ErrTaken
	}
	if err != nil {
		return Automation{}, fmt.Errorf("create an automation: %w", err)
	}
	return first(written)
}

// Patch is what to change of an automation; nil leaves it as it is. A cron
// expression takes the place of an event, and the other way round. Patches are
// people's: from then on the automation speaks in their words.
type Patch struct {
	Name, Skill           *string
	Input                 []byte
	Cron, TimeZone, Event *string
}

// Patch changes an automation as it was read, and answers it as it stands then.
// Errors: [invalid.Error], [ErrTaken], [ErrChanged].
func (s *Store) Patch(ctx context.Context, tx Tx, a Automation, p Patch) (Automation, error) {
	before := a
	a.Untrusted = false
	set(&a.Name, p.Name)
	set(&a.Skill, p.Skill)
	if p.Input != nil {
		a.Input = p.Input
	}
	switch {
	case p.Event != nil && p.Cron == nil:
		a.Cron, a.TimeZone = "", ""
	case p.Cron != nil && p.Event == nil:
		a.Event = ""
	}
	set(&a.Cron, p.Cron)
	set(&a.TimeZone, p.TimeZone)
	set(&a.Event, p.Event)
	if a.Cron == before.Cron && a.TimeZone == before.TimeZone {
		a.due = before.NextRunAt // what is due stays so
	}
	return s.put(ctx, tx, a)
}

// Delete takes an automation away and reports whether it was there.
func (s *Store) Delete(ctx context.Context, tx Tx, id string) (bool, error) {
	n, err := tx.Exec(ctx, s.q.Delete, id)
	if err != nil {
		return false, fmt.Errorf("delete an automation: %w", err)
	}
	return n > 0, nil
}

// Enable lets an automation run again, from now on. It reports whether that changed
// anything. Errors: [ErrChanged], and [ErrByHuman] where self-healing asks for what
// a human has disabled.
func (s *Store) Enable(ctx context.Context, tx Tx, a Automation, by skill.Actor) (Automation, bool, error) {
	if a.Enabled {
		return a, false, nil
	}
	if a.DisabledBy == skill.Human && by != skill.Human {
		return a, false, ErrByHuman
	}
	a.Enabled, a.DisabledBy, a.DisabledReason = true, "", ""
	a, err := s.put(ctx, tx, a)
	return a, err == nil, err
}

// Disable keeps an automation from running. It reports whether that changed
// anything. Errors: [invalid.Error], [ErrChanged].
func (s *Store) Disable(ctx context.Context, tx Tx, a Automation, by skill.Actor, reason string) (Automation, bool, error) {
	if !a.Enabled && (a.DisabledBy == by || by == skill.SelfHealing) {
		return a, false, nil
	}
	a.Enabled, a.DisabledBy, a.DisabledReason = false, by, reason
	a, err := s.put(ctx, tx, a)
	return a, err == nil, err
}

// put writes an automation over the version that was read.
func (s *Store) put(ctx context.Context, tx Tx, a Automation) (Automation, error) {
	if err := a.check(); err != nil {
		return Automation{}, err
	}
	var written []Automation
	err := tx.Each(ctx, collect(&written), s.q.Update, append([]any{a.ID, a.Version}, a.values()...)...)
	if errors.Is(err, db.ErrUnique) {
		return Automation{}, ErrTaken
	}
	if err != nil {
		return Automation{}, fmt.Errorf("change an automation: %w", err)
	}
	if len(written) == 0 {
		return Automation{}, ErrChanged
	}
	return written[0], nil
}

// DisableUsing disables, for self-healing, what runs a skill, and answers the ids.
func (s *Store) DisableUsing(ctx context.Context, tx Tx, name, reason string) ([]string, error) {
	var found []Automation
	if err := tx.Each(ctx, collect(&found), s.q.Using, name, Max); err != nil {
		return nil, fmt.Errorf("read the automations of a skill: %w", err)
	}
	ids := []string{}
	for _, a := range found {
		if _, _, err := s.Disable(ctx, tx, a, skill.SelfHealing, reason); err != nil {
			return nil, err
		}
		ids = append(ids, a.ID)
	}
	return ids, nil
}

// EnableAgain enables what self-healing has disabled, at most so many of the
// automations, and answers how many: those with a cron expression before those that wait
// for an event. What a human has disabled meanwhile stays so.
func (s *Store) EnableAgain(ctx context.Context, tx Tx, ids []string, most int) (int, error) {
	var found []Automation // but those that were deleted since
	for _, id := range ids {
		if err := tx.Each(ctx, collect(&found), s.q.Get, id, ""); err != nil {
			return 0, fmt.Errorf("read an automation: %w", err)
		}
	}
	slices.SortStableFunc(found, func(a, b Automation) int { return strings.Compare(a.Event, b.Event) })
	n := 0
	for _, a := range found {
		if n == most {
			break
		}
		_, changed, err := s.Enable(ctx, tx, a, skill.SelfHealing)
		if err != nil && !errors.Is(err, ErrByHuman) {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}
