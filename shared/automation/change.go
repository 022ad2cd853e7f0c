package automation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Create creates an automation, under its id if it has one, and returns the stored one. If a.NextRunAt is
// set, it replaces the schedule's first time. Errors: [problem.InvalidError], [ErrTaken], [ErrFull].
func (s *Store) Create(ctx context.Context, tx Tx, a Automation) (Automation, error) {
	var rows int
	a.due = a.NextRunAt
	a.now = time.Now() // provisional: the second check below uses the database's clock
	if err := tellsNothing(ctx, a.Input); err != nil {
		return Automation{}, err
	}
	if err := a.check(); err != nil {
		return Automation{}, err
	}
	tx.Later().Exec(s.q.LockHead) // two concurrent calls must not exceed the limit
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
	err := tx.Each(ctx, collect(&written), s.q.Insert, append(append([]any{cmp.Or(a.ID, s.ids())}, a.values()...), a.CreatedBy)...)
	if errors.Is(err, db.ErrUnique) {
		return Automation{}, ErrTaken
	}
	return db.Found(written, err, "create an automation", ErrNotFound)
}

// Patch is a change of an automation. A nil field stays as it is. A cron expression replaces an
// event and the other way round. Only people patch: afterwards the automation is trusted.
type Patch struct {
	Name, Skill           *string
	Input                 []byte
	Cron, TimeZone, Event *string
}

// Patch changes an automation that was read before, and returns the stored one. Errors:
// [problem.InvalidError], [ErrTaken], [ErrChanged].
func (s *Store) Patch(ctx context.Context, tx Tx, a Automation, p Patch) (Automation, error) {
	a.Untrusted = false
	db.Patch(&a.Name, p.Name)
	db.Patch(&a.Skill, p.Skill)
	if p.Input != nil {
		a.Input = p.Input
		if err := tellsNothing(ctx, a.Input); err != nil {
			return Automation{}, err
		}
	}
	switch {
	case p.Event != nil && p.Cron == nil:
		a.Cron, a.TimeZone = "", ""
	case p.Cron != nil && p.Event == nil:
		a.Event = ""
	}
	db.Patch(&a.Cron, p.Cron)
	db.Patch(&a.TimeZone, p.TimeZone)
	db.Patch(&a.Event, p.Event)
	return s.put(ctx, tx, a)
}

// Delete deletes an automation and reports whether it existed.
func (s *Store) Delete(ctx context.Context, tx Tx, id string) (bool, error) {
	n, err := tx.Exec(ctx, s.q.Delete, id)
	if err != nil {
		return false, fmt.Errorf("delete an automation: %w", err)
	}
	return n > 0, nil
}

// Enable enables an automation and reports whether that changed anything. It runs again from now
// on; missed times are not made up for. Errors: [ErrChanged]. Self-healing gets [ErrByHuman] for an
// automation that a human has disabled.
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

// Disable disables an automation and reports whether that changed anything. On a disabled one it
// changes nothing, with one exception: a human replaces the reason of self-healing. It also disables
// one whose schedule can't be read. Errors: [problem.InvalidError] of reason, [ErrChanged].
func (s *Store) Disable(ctx context.Context, tx Tx, a Automation, by skill.Actor, reason string) (Automation, bool, error) {
	if !a.Enabled && (a.DisabledBy == by || by == skill.SelfHealing) {
		return a, false, nil
	}
	if len([]rune(reason)) > maxReason {
		return a, false, problem.Invalid("reason", "may have 500 characters at most")
	}
	a.Enabled, a.DisabledBy, a.DisabledReason, a.NextRunAt = false, by, reason, nil
	a, err := s.write(ctx, tx, a)
	return a, err == nil, err
}

// put checks an automation and writes it.
func (s *Store) put(ctx context.Context, tx Tx, a Automation) (Automation, error) {
	if err := a.check(); err != nil {
		return Automation{}, err
	}
	return s.write(ctx, tx, a)
}

// write writes an automation over the version that was read.
func (s *Store) write(ctx context.Context, tx Tx, a Automation) (Automation, error) {
	var written []Automation
	err := tx.Each(ctx, collect(&written), s.q.Update, append([]any{a.ID, a.Version}, a.values()...)...)
	if errors.Is(err, db.ErrUnique) {
		return Automation{}, ErrTaken
	}
	return db.Found(written, err, "change an automation", ErrChanged)
}

// DisableUsing disables all automations of a skill on behalf of self-healing. It returns their ids.
func (s *Store) DisableUsing(ctx context.Context, tx Tx, name, reason string) ([]string, error) {
	var found []Automation
	tx.Later().Exec(s.q.LockUsing, name)
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

// EnableAgain enables up to `most` automations that self-healing has disabled, and returns their
// number. Those with a cron expression come first, then those with an event. It leaves automations
// that a human has disabled since, and those whose schedules can't be read.
func (s *Store) EnableAgain(ctx context.Context, tx Tx, ids []string, most int) (int, error) {
	var found []Automation // without those that were deleted since
	for _, id := range ids {
		tx.Later().Exec(s.q.Lock, id)
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
		if _, unreadable := errors.AsType[*problem.InvalidError](err); err != nil && !unreadable && !errors.Is(err, ErrByHuman) {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}

// tellsNothing refuses an input that holds a secret, known or under a telling name: it is
// stored, shown and recorded with each call.
func tellsNothing(ctx context.Context, input []byte) error {
	bad := &problem.InvalidError{}
	bad.If(json.Valid(input) && !bytes.Equal(redact.From(ctx).JSON(input), input), "input",
		`holds a secret, which would be stored and shown: leave it out, and have the skill's configuration name it, {"$secret": name}`)
	return bad.OrNil()
}
