package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Create makes a budget with n's scope, allocation, period and creator, and its id if it has one, and returns it. Errors:
// [InvalidError], [OverlapError].
func (s *Store) Create(ctx context.Context, tx *db.Tx, n Budget) (Budget, error) {
	n.Start, n.End = n.Start.UTC().Truncate(time.Microsecond), n.End.UTC().Truncate(time.Microsecond)
	if err := n.check(); err != nil {
		return Budget{}, err
	}
	var overlap *OverlapError
	tx.Later().Exec(s.q.LockPeriods)
	err := tx.Each(ctx, func(scan db.Scan) error {
		overlap = new(OverlapError)
		return scan(&overlap.ID, &overlap.Start, &overlap.End)
	}, s.q.Overlap, n.Scope, n.ScopeID, n.Start, n.End)
	if err == nil && overlap != nil {
		return Budget{}, overlap
	}
	id := cmp.Or(n.ID, s.ids())
	s.insert(tx.Later(), id, n)
	var made []Budget
	if err == nil {
		made, err = s.read(ctx, tx, id, nil)
	}
	if err != nil {
		return Budget{}, fmt.Errorf("create a budget: %w", err)
	}
	return made[0], nil
}

// read returns the budgets with one or two ids, as far as they exist.
func (s *Store) read(ctx context.Context, tx *db.Tx, id, another any) (found []Budget, err error) {
	err = tx.Each(ctx, collect(&found), s.q.Get, id, another)
	return found, err
}

// An Allocation is what a budget may use in a period from now on. A nil field stays as it is.
type Allocation struct {
	Tokens   *int64
	MicroUSD *int64 // caps the money of a budget that has no cap yet
}

// Patch changes what is allocated to a budget, and returns the budget. A new number must not be
// less than what is consumed. version must be the budget's, or zero for any. Reservations beyond
// the new number are recorded as overdraft and expire. Errors: [ErrNotFound], [ErrChanged],
// [InvalidError].
func (s *Store) Patch(ctx context.Context, tx *db.Tx, id string, version int, a Allocation) (Budget, error) {
	tx.Later().Exec(s.q.LockThese, id, nil)
	found, err := s.read(ctx, tx, id, nil)
	switch {
	case err != nil:
		return Budget{}, fmt.Errorf("change a budget: %w", err)
	case len(found) == 0:
		return Budget{}, ErrNotFound
	case version != 0 && version != found[0].Version:
		return Budget{}, ErrChanged
	}
	tokens := found[0].Tokens.Allocated
	if a.Tokens != nil {
		tokens = *a.Tokens
		if err := within("allocated", tokens, found[0].Tokens.Consumed, MaxTokens); err != nil {
			return Budget{}, err
		}
	}
	if a.MicroUSD != nil {
		if err := within("allocatedMicroUsd", *a.MicroUSD, found[0].MicroUSD.Consumed, MaxMicroUSD); err != nil {
			return Budget{}, err
		}
	}
	tx.Later().Exec(s.q.Allocate, id, tokens, a.MicroUSD)
	if found, err = s.read(ctx, tx, id, nil); err != nil {
		return Budget{}, fmt.Errorf("change a budget: %w", err)
	}
	return found[0], nil
}

// AllocateDays adds to a batch that the budgets which are made for each day have so many tokens, and so much money,
// today. Zero money is no limit.
func (s *Store) AllocateDays(b *db.Batch, tokens, microUSD int64) {
	b.Exec(s.q.AllocateDays, tokens, db.Null(microUSD))
}

// Reallocate moves tokens that are neither consumed nor reserved from one budget to another, and
// returns both. What a period that is over has left stays with it. Errors: [ErrNotFound], [InvalidError],
// and a [RefusedError] when the source has fewer tokens.
func (s *Store) Reallocate(ctx context.Context, tx *db.Tx, from, to string, amount int64) (source, target Budget, err error) {
	if err := within("amount", amount, 1, MaxTokens); err != nil {
		return source, target, err
	}
	tx.Later().Exec(s.q.LockThese, from, to)
	found, err := s.read(ctx, tx, from, to)
	switch {
	case err != nil:
		return source, target, fmt.Errorf("reallocate: %w", err)
	case from == to:
		return source, target, &InvalidError{"to", "must be another budget"}
	}
	if source, target, err = pair(found, from, to); err != nil {
		return source, target, err
	}
	if !source.now.Before(source.End) && target.now.Before(target.End) {
		return source, target, &InvalidError{"from", "must not be a budget whose period is over"}
	}
	if left := source.Tokens.Remaining(); left < amount {
		return source, target, &RefusedError{Scope: source.Scope, ScopeID: source.ScopeID, Remaining: max(0, left), FreesAt: source.End}
	}
	if err := within("amount", amount, 1, MaxTokens-target.Tokens.Allocated); err != nil {
		return source, target, err
	}
	tx.Later().Exec(s.q.Allocate, from, source.Tokens.Allocated-amount, nil)
	tx.Later().Exec(s.q.Allocate, to, target.Tokens.Allocated+amount, nil)
	if found, err = s.read(ctx, tx, from, to); err != nil {
		return source, target, fmt.Errorf("reallocate: %w", err)
	}
	return pair(found, from, to)
}

// pair returns two budgets by their ids.
func pair(found []Budget, first, second string) (a, b Budget, err error) {
	i := slices.IndexFunc(found, func(b Budget) bool { return b.ID == first })
	j := slices.IndexFunc(found, func(b Budget) bool { return b.ID == second })
	if i < 0 || j < 0 {
		return a, b, ErrNotFound
	}
	return found[i], found[j], nil
}
