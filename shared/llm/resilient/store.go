package resilient

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

//go:embed *.sql
var files embed.FS

// Policy says when circuits open, and for how long. Zero values mean the defaults.
type Policy struct {
	Failures    int           // consecutive failures that open a circuit: 5
	Window      time.Duration // failures further apart are not consecutive: 5 min
	Cooldown    time.Duration // the first one: 30 s
	MaxCooldown time.Duration // 10 min
	Pause       time.Duration // after a rejected key or an unpaid bill: 1 h
}

type queries struct {
	Look, List, Ensure, Count, Trip, Pause, Close, Claim, GiveBack db.Query
}

// Store stores the circuits of all workspaces in the table provider_circuits. It implements
// [Circuits].
type Store struct {
	db     *db.DB
	q      queries
	policy Policy
}

var _ Circuits = (*Store)(nil)

// NewStore returns a store.
func NewStore(d *db.DB, p Policy) (*Store, error) {
	s := &Store{db: d, policy: Policy{
		Failures: cmp.Or(p.Failures, 5), Window: cmp.Or(p.Window, 5*time.Minute),
		Cooldown: cmp.Or(p.Cooldown, 30*time.Second), MaxCooldown: cmp.Or(p.MaxCooldown, 10*time.Minute),
		Pause: cmp.Or(p.Pause, time.Hour),
	}}
	return s, db.Load(files, &s.q)
}

// Load implements [Circuits], in one round trip.
func (s *Store) Load(ctx context.Context, ws db.Workspace, keys []Key) ([]Circuit, error) {
	var b db.Batch
	read := s.LoadIn(&b, keys)
	if err := s.db.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("load circuits: %w", err)
	}
	return read(), nil
}

// LoadIn implements [Circuits].
func (s *Store) LoadIn(b *db.Batch, keys []Key) (read func() []Circuit) {
	out := make([]Circuit, len(keys))
	for i, k := range keys {
		out[i] = Circuit{Key: k, State: Closed}
		b.Each(out[i].read, s.q.Look, k.Provider, k.Model)
	}
	return func() []Circuit { return out }
}

// List returns the workspace's circuits that are not closed, at most limit, sorted by provider and
// model.
func (s *Store) List(ctx context.Context, ws db.Workspace, limit int) ([]Circuit, error) {
	var out []Circuit
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, c *Circuit) error { return c.read(scan) }), s.q.List, limit)
	if err != nil {
		return nil, fmt.Errorf("list circuits: %w", err)
	}
	return out, nil
}

func (c *Circuit) read(scan db.Scan) error {
	var now time.Time
	if err := scan(&c.Provider, &c.Model, &c.State, &c.Failures, db.Optional(&c.Class), &c.OpenedAt, &c.RetryAt, &now); err != nil {
		return err
	}
	if c.RetryAt != nil {
		c.RetryIn = c.RetryAt.Sub(now)
	}
	return nil
}

// Failed implements [Circuits], in one round trip.
func (s *Store) Failed(ctx context.Context, ws db.Workspace, key Key, class llm.ErrorClass, wait time.Duration) (Circuit, error) {
	var b db.Batch
	b.Exec(s.q.Ensure, key.Provider, key.Model)
	if lasting(class) {
		b.Exec(s.q.Pause, key.Provider, key.Model, class, s.policy.Pause.Milliseconds())
	} else {
		cooldown := min(max(s.policy.Cooldown, wait), s.policy.MaxCooldown)
		b.Exec(s.q.Count, key.Provider, key.Model, class, s.policy.Window.Milliseconds())
		b.Exec(s.q.Trip, key.Provider, key.Model, s.policy.Failures, cooldown.Milliseconds(), s.policy.MaxCooldown.Milliseconds())
	}
	var c Circuit
	b.Each(c.read, s.q.Look, key.Provider, key.Model).MustFind()
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return Circuit{}, fmt.Errorf("count a failure of %s: %w", key.Provider, err)
	}
	return c, nil
}

// Succeeded implements [Circuits].
func (s *Store) Succeeded(ctx context.Context, ws db.Workspace, key Key, also func(*db.Batch)) error {
	var b db.Batch
	b.Exec(s.q.Close, key.Provider, key.Model)
	if also != nil {
		also(&b)
	}
	if err := s.db.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("close the circuit of %s: %w", key.Provider, err)
	}
	return nil
}

// Reset closes a circuit after a person has fixed the cause. It returns [db.ErrNoRows] if there is
// nothing to reset. Models that have the circuit cached notice it after [Noticed].
func (s *Store) Reset(ctx context.Context, tx *db.Tx, key Key) error {
	n, err := tx.Exec(ctx, s.q.Close, key.Provider, key.Model)
	if err == nil && n == 0 {
		err = db.ErrNoRows
	}
	if err != nil {
		return fmt.Errorf("reset the circuit of %s: %w", key.Provider, err)
	}
	return nil
}

// Claim implements [Circuits].
func (s *Store) Claim(ctx context.Context, ws db.Workspace, key Key, lease time.Duration) (bool, error) {
	n, err := s.db.Exec(ctx, ws, s.q.Claim, key.Provider, key.Model, lease.Milliseconds())
	if err != nil {
		return false, fmt.Errorf("claim a probe of %s: %w", key.Provider, err)
	}
	return n > 0, nil
}

// GiveBack implements [Circuits].
func (s *Store) GiveBack(ctx context.Context, ws db.Workspace, key Key) error {
	if _, err := s.db.Exec(ctx, ws, s.q.GiveBack, key.Provider, key.Model); err != nil {
		return fmt.Errorf("give back a probe of %s: %w", key.Provider, err)
	}
	return nil
}
