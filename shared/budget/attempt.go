package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Tx is an open transaction: a [db.Tx] or a lane's.
type Tx = db.Writer

// A Cover says what an attempt at a task is for, who makes it, and of which skill it may ask: ids and a
// name, of which each may be empty. The budgets of these scopes and the global one cover the attempt.
type Cover struct{ Task, Milestone, Project, Agent, Skill string }

// scopeKey names one scope.
type scopeKey struct {
	Scope Scope
	ID    string
}

func (c Cover) scopes() []scopeKey {
	out := []scopeKey{{Global, ""}}
	for _, k := range []scopeKey{{Project, c.Project}, {Milestone, c.Milestone}, {Task, c.Task}, {Agent, c.Agent}, {Skill, c.Skill}} {
		if k.ID != "" {
			out = append(out, k)
		}
	}
	return out
}

// A Ledger has budgets that a transaction has locked and read, and the attempts that it has
// reserved for since. It is not safe for concurrent use.
type Ledger struct {
	budgets map[scopeKey]*Budget // those whose period is now
	held    []attempt
}

// attempt is what was reserved for one attempt.
type attempt struct {
	task             string
	number           int
	tokens, microUSD int64
	budgets          []string
}

// Lock locks the budgets of the covers in the order of their ids, and reads them in a statement
// after that. It first begins the next period of budgets whose period is over. The number of
// statements does not depend on that of the covers: two in one round trip, and seven more for each time
// that periods begin. A transaction locks agents before and tasks after the budgets.
func (s *Store) Lock(ctx context.Context, tx Tx, covers []Cover) (*Ledger, error) {
	scopes := encodeScopes(scopesOf(covers))
	for range maxRolls {
		var locked []string
		var over []Budget
		tx.Later().Each(db.Column(&locked), s.q.LockCovers, scopes)
		if err := tx.Each(ctx, collect(&over), s.q.LookCovers, scopes); err != nil {
			return nil, fmt.Errorf("lock budgets: %w", err)
		}
		due, current := repeating(over)
		if len(due) > 0 {
			if err := s.begin(ctx, tx, scopes); err != nil {
				return nil, fmt.Errorf("begin the next periods of budgets: %w", err)
			}
			continue
		}
		if slices.ContainsFunc(current, func(b Budget) bool { return !slices.Contains(locked, b.ID) }) {
			continue // it was made meanwhile
		}
		if carried, err := s.carry(ctx, tx, current); err != nil {
			return nil, err
		} else if carried {
			continue
		}
		return newLedger(current), nil
	}
	return nil, fmt.Errorf("lock budgets: %w", errPeriod)
}

// Look reads the budgets of the covers without locks: what it says may change at once. A budget whose
// period is over does not bind. It runs one statement.
func (s *Store) Look(ctx context.Context, tx Tx, covers []Cover) (*Ledger, error) {
	var found []Budget
	if err := tx.Each(ctx, collect(&found), s.q.LookCovers, encodeScopes(scopesOf(covers))); err != nil {
		return nil, fmt.Errorf("look at budgets: %w", err)
	}
	_, current := repeating(found)
	return newLedger(current), nil
}

// scopesOf returns the scopes of covers, sorted.
func scopesOf(covers []Cover) []scopeKey {
	var keys []scopeKey
	for _, c := range covers {
		keys = append(keys, c.scopes()...)
	}
	slices.SortFunc(keys, func(a, b scopeKey) int { return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.ID, b.ID)) })
	return slices.Compact(keys)
}

func newLedger(current []Budget) *Ledger {
	l := &Ledger{budgets: map[scopeKey]*Budget{}}
	for i := range current {
		l.budgets[scopeKey{current[i].Scope, current[i].ScopeID}] = &current[i]
	}
	return l
}

// repeating splits the newest begun budgets into those that must begin their next period, and those
// whose period is now. Automatic budgets are made again by who needs them.
func repeating(over []Budget) (due, current []Budget) {
	for _, b := range over {
		switch {
		case b.active():
			current = append(current, b)
		case b.CreatedBy != Automatic:
			due = append(due, b)
		}
	}
	return due, current
}

// begin makes the next periods of the scopes' budgets whose period is over, under the lock of the
// workspace's row. The caller holds no budget yet: a transaction that has the workspace's row may lock
// budgets, and one that has budgets never waits for that row. A period ends where a planned one begins. The reservations of open attempts go on in the new period.
func (s *Store) begin(ctx context.Context, tx Tx, scopes string) error {
	var now time.Time
	var over []Budget
	tx.Later().One([]any{&now}, s.q.LockPeriods)
	if err := tx.Each(ctx, collect(&over), s.q.LookCovers, scopes); err != nil {
		return err
	}
	due, _ := repeating(over)
	if len(due) == 0 {
		return nil // somebody else has made them
	}
	ids := make([]string, len(due))
	rows := func() string {
		out := make([][]any, len(due))
		for i, b := range due {
			var money any
			if b.Capped {
				money = b.MicroUSD.Allocated
			}
			out[i] = []any{b.Scope, b.ScopeID, b.Start, b.End, b.Start.UnixMicro(), b.End.UnixMicro(), ids[i],
				b.Tokens.Allocated, money, b.CreatedBy}
		}
		return db.Encode(out)
	}
	for i := range due {
		due[i].Start, due[i].End = successor(due[i].Start, due[i].End, now)
		ids[i] = s.ids()
	}
	err := tx.Each(ctx, func(scan db.Scan) error {
		var i int
		var planned time.Time
		if err := scan(&i, &planned); err != nil {
			return err
		}
		due[i].End = planned
		return nil
	}, s.q.Planned, rows())
	if err != nil {
		return err
	}
	tx.Later().Exec(s.q.InsertPeriods, rows())
	return s.carryOver(ctx, tx, ids)
}

// carry takes what open attempts have reserved along into the present periods, which the caller has locked:
// a call outside of tasks may have begun them, or a person planned them. It reports whether it has changed any.
func (s *Store) carry(ctx context.Context, tx Tx, current []Budget) (bool, error) {
	var behind []string
	for _, b := range current {
		if b.behind {
			behind = append(behind, b.ID)
		}
	}
	if len(behind) == 0 {
		return false, nil
	}
	if err := s.carryOver(ctx, tx, behind); err != nil {
		return false, fmt.Errorf("carry reservations over: %w", err)
	}
	return true, nil
}

func (s *Store) carryOver(ctx context.Context, tx Tx, ids []string) error {
	tx.Later().Exec(s.q.CarryOver, db.Encode(ids))
	_, err := tx.Exec(ctx, s.q.Recount, db.Encode(ids))
	return err
}

// Hold reserves tokens and money for an attempt in all budgets that cover it, or in none. It changes
// only the ledger; [Store.Write] stores that. It returns nil if all budgets had enough, else which had the
// least, in relation to what was asked of it.
func (l *Ledger) Hold(c Cover, task string, number int, tokens, microUSD int64) *RefusedError {
	if refused := l.Fits(c, tokens, microUSD); refused != nil {
		return refused
	}
	a := attempt{task: task, number: number, tokens: tokens, microUSD: microUSD}
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil {
			b.Tokens.Reserved += tokens
			b.MicroUSD.Reserved += microUSD
			a.budgets = append(a.budgets, b.ID)
		}
	}
	l.held = append(l.held, a)
	return nil
}

// Fits reports whether all budgets of the cover have that much left: nil, or the first that has not,
// from the widest scope to the narrowest.
func (l *Ledger) Fits(c Cover, tokens, microUSD int64) *RefusedError {
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil {
			if refused := b.fits(tokens, microUSD); refused != nil {
				return refused
			}
		}
	}
	return nil
}

// fits reports whether a budget has that much left.
func (b *Budget) fits(tokens, microUSD int64) *RefusedError {
	refused := &RefusedError{Scope: b.Scope, ScopeID: b.ScopeID, FreesAt: b.End}
	of, asked := b.Tokens, tokens
	left, spent := of.Remaining(), of.Allocated-of.Consumed
	if left >= asked && (asked > 0 || spent > 0) {
		if !b.Capped {
			return nil
		}
		of, asked = b.MicroUSD, microUSD
		left, spent = of.Remaining(), of.Allocated-of.Consumed
		refused.Money = true
		if left >= asked && spent > 0 {
			return nil
		}
	}
	refused.Remaining, refused.TooSmall = max(0, left), asked > of.Allocated
	if b.lapse != nil && spent >= asked && b.lapse.Before(b.End) {
		refused.FreesAt = *b.lapse // others' reservations use the rest until then
	}
	return refused
}

// Paced returns which budget of the cover, from the widest scope to the narrowest, is spent too fast for
// work of a priority to begin: nil if none is.
func (l *Ledger) Paced(c Cover, priority int) *RefusedError {
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil && !b.Pace.Admits(priority) {
			return &RefusedError{Scope: b.Scope, ScopeID: b.ScopeID, Pace: b.Pace, FreesAt: b.End}
		}
	}
	return nil
}

// Slots returns how many of n pieces of work may begin at once at the pace of the workspace's budget.
func (l *Ledger) Slots(n int) int {
	if b := l.budgets[scopeKey{Global, ""}]; b != nil {
		return b.Pace.Slots(n)
	}
	return n
}

// Remaining returns what the budgets of the cover have left: the smallest amount of each kind, and
// [MaxTokens] or [MaxMicroUSD] where nothing bounds it.
func (l *Ledger) Remaining(c Cover) (tokens, microUSD int64) {
	tokens, microUSD = MaxTokens, MaxMicroUSD
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil {
			tokens = min(tokens, max(0, b.Tokens.Remaining()))
			if b.Capped {
				microUSD = min(microUSD, max(0, b.MicroUSD.Remaining()))
			}
		}
	}
	return tokens, microUSD
}

// errOverspent means that rows have changed although they were locked.
var errOverspent = fmt.Errorf("a budget that was locked has changed: nothing is reserved")

// Write adds to a batch that what the ledger has reserved is stored, with one statement for each table. The
// transaction must insert the attempts, before or after. A reservation lives until its attempt ends;
// that settles it, whoever ends it. The returned function says after the batch was sent, and before the
// commit, whether all is reserved; an error must end the transaction.
func (s *Store) Write(b *db.Batch, l *Ledger) func() error {
	done := func() error { return nil }
	if len(l.held) == 0 {
		return done
	}
	estimates, rows, ids := [][]any{}, [][]any{}, []string{}
	for _, a := range l.held {
		if a.tokens > 0 {
			estimates = append(estimates, []any{a.task, a.tokens})
		}
		id := s.ids()
		for _, of := range a.budgets {
			rows = append(rows, []any{id, of, a.task, a.number, a.tokens, a.microUSD})
			ids = append(ids, of)
		}
	}
	l.held = nil
	if len(estimates) > 0 {
		b.Exec(s.q.Estimated, db.Encode(estimates))
	}
	if len(rows) == 0 {
		return done
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	b.Exec(s.q.HoldAttempts, db.Encode(rows), db.EndOfTime).MustFindAll(len(rows))
	promised := b.Exec(s.q.Promise, db.Encode(ids))
	return func() error {
		if promised.Affected() != int64(len(ids)) {
			return fmt.Errorf("reserve for attempts: %w", errOverspent)
		}
		return nil
	}
}

// HoldCall raises what is reserved for an attempt, in all budgets that cover it, until it pays for one call
// of a model: the input and the output of the request, or as much output as is left, but at least its Min.
// It returns the output, or a [RefusedError]. What the call does not use stays reserved for the attempt
// until that ends. The ledger must have the budgets of the cover locked, and the caller must have seen in
// the same transaction that the attempt is under way: only its end releases what is reserved. It returns an
// [UnpricedError] when money is capped and a model has no price.
func (s *Store) HoldCall(ctx context.Context, tx Tx, l *Ledger, c Cover, number int, r Request) (int64, error) {
	type account struct{ tokens, microUSD int64 }
	held := map[string]account{}
	if err := s.freshPricesIn(ctx, tx); err != nil {
		return 0, err
	}
	err := tx.Each(ctx, db.Put(held, func(scan db.Scan, id *string, a *account) error {
		return scan(id, &a.tokens, &a.microUSD)
	}), s.q.HeldByAttempt, c.Task, number)
	if err != nil {
		return 0, fmt.Errorf("reserve for a call: %w", err)
	}
	var over []Budget
	for _, k := range c.scopes() {
		if b := l.budgets[k]; b != nil {
			free := *b
			free.Tokens.Reserved -= held[b.ID].tokens
			free.MicroUSD.Reserved -= held[b.ID].microUSD
			over = append(over, free)
		}
	}
	p, unpriced := s.prices.dearest(append([]string{r.Model}, r.Others...)...)
	if unpriced != nil && slices.ContainsFunc(over, func(b Budget) bool { return b.Capped }) {
		return 0, unpriced
	}
	output, err := r.grant(over, p)
	if err != nil {
		return 0, err
	}
	id, tokens, microUSD := s.ids(), r.Input+output, p.most(r.Input, output)
	var raised []string
	for _, b := range over {
		has, there := held[b.ID]
		if has.tokens >= tokens && has.microUSD >= microUSD {
			continue
		}
		if !there {
			tx.Later().Exec(s.q.HoldAttempts, db.Encode([][]any{{id, b.ID, c.Task, number, 0, 0}}), db.EndOfTime).MustFind()
		}
		tx.Later().Exec(s.q.RaiseAttempt, c.Task, number, b.ID, tokens, microUSD).MustFind()
		raised = append(raised, b.ID)
	}
	if len(raised) == 0 {
		return output, nil
	}
	slices.Sort(raised)
	if _, err := tx.Exec(ctx, s.q.Recount, db.Encode(raised)); err != nil {
		return 0, fmt.Errorf("reserve for a call: %w", err)
	}
	return output, nil
}

func encodeScopes(keys []scopeKey) string {
	rows := make([][2]string, len(keys))
	for i, k := range keys {
		rows[i] = [2]string{string(k.Scope), k.ID}
	}
	return db.Encode(rows)
}
