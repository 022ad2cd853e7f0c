package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Request asks to use a model once.
type Request struct {
	Agent     string
	Skill     string // optional: what the call is made for
	Surface   trace.Surface
	Execution string
	Trace     trace.ID
	Session   string // optional
	Task      string // optional
	Model     string // the provider's id, for the price
	// Others are models that may answer instead; the most expensive one counts.
	Others []string

	Input  int64 // an estimate of the input tokens
	Output int64 // the largest number of output tokens
	// Min is the smallest number of output tokens for which the call is worthwhile. When less than
	// Output is left, Reserve grants what is left, but at least Min. Zero means all or nothing.
	Min int64
	// Lease is how long the reservation lives. It must be longer than the call may take.
	Lease time.Duration
	// Day is how many tokens the agent may use on the surface in a calendar day (UTC) for which
	// nobody has made a budget; zero: no limit. DayMicroUSD is the limit in money; zero: no limit.
	Day, DayMicroUSD int64
	// Priced refuses models without a price, as a budget with a cap in money does.
	Priced bool
}

// A Reservation is a granted request. Its Output is what was granted.
type Reservation struct {
	ID string
	Request
	held bool // something is reserved
}

// MaxLease is the longest lease of a reservation.
const MaxLease = time.Hour

func (r Request) check() error {
	switch {
	case r.Input < 0 || r.Input > maxCall || r.Output < 1 || r.Output > maxCall || r.Min < 0 || r.Min > r.Output:
		return fmt.Errorf("reserve %d tokens and %d, %d at least", r.Input, r.Output, r.Min)
	case r.Lease < time.Millisecond || r.Lease > MaxLease:
		return fmt.Errorf("reserve for %s", r.Lease)
	case r.Day < 0 || r.Day > MaxTokens || r.DayMicroUSD < 0 || r.DayMicroUSD > MaxMicroUSD:
		return fmt.Errorf("reserve of %d tokens and %d micro-dollars a day", r.Day, r.DayMicroUSD)
	}
	return nil
}

// here returns the scope id of the agent's budgets on the surface.
func (r Request) here() string { return r.Agent + ":" + string(r.Surface) }

// errPeriod means that a budget's next period must be made first, or that reservations were carried over into it.
var errPeriod = errors.New("a period is over")

// maxRolls is how often periods may end during one Reserve.
const maxRolls = 3

// Reserve reserves the most that a call may use from every budget that covers it: those of the
// agent, of the agent on the surface, of the skill and of the workspace. When one of them has too
// little, it reserves nothing and returns a [RefusedError]. It returns an [UnpricedError] when
// money is capped and the model has no price. It takes two round trips, or more when a period has
// ended since the last reservation. After [db.ErrUncertain] something may be reserved until the
// lease ends.
func (s *Store) Reserve(ctx context.Context, ws db.Workspace, req Request) (Reservation, error) {
	err := req.check()
	for range maxRolls {
		if err != nil {
			break
		}
		var r Reservation
		if r, err = s.reserve(ctx, ws, req); err == nil {
			return r, nil
		}
		if errors.Is(err, errPeriod) {
			err = s.roll(ctx, ws, req)
		}
	}
	if err == nil {
		err = errPeriod
	}
	return Reservation{}, fmt.Errorf("reserve budget: %w", err)
}

// Grant is Reserve for a workspace without budgets, as the caller has read just before: it reserves
// nothing. It must not be called for a request that has a daily limit, or must be priced.
func (s *Store) Grant(req Request) (Reservation, error) {
	if err := req.check(); err != nil {
		return Reservation{}, fmt.Errorf("grant: %w", err)
	}
	if req.Day > 0 || req.Priced {
		return Reservation{}, errors.New("grant: a limit bounds the request")
	}
	return Reservation{ID: s.ids(), Request: req}, nil
}

func (s *Store) reserve(ctx context.Context, ws db.Workspace, req Request) (Reservation, error) {
	r, carried := Reservation{ID: s.ids(), Request: req}, false
	err := s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		var locked []string
		var over []Budget
		tx.Later().Each(db.Column(&locked), s.q.Lock, req.Agent, req.Skill, req.here())
		keep := s.stalePrices(tx.Later())
		if err := tx.Each(ctx, collect(&over), s.q.Look, req.Agent, req.here()); err != nil {
			return err
		}
		keep()
		due := req.renewable(over)
		over = slices.DeleteFunc(over, func(b Budget) bool { return !b.active() || b.Scope == Skill && b.ScopeID != req.Skill })
		if len(due) > 0 || slices.ContainsFunc(over, func(b Budget) bool { return !slices.Contains(locked, b.ID) }) {
			return errPeriod
		}
		var err error
		if carried, err = s.carry(ctx, tx, over); err != nil || carried {
			return err
		}
		p, unpriced := s.prices.dearest(append([]string{req.Model}, req.Others...)...)
		if unpriced != nil && (req.Priced || slices.ContainsFunc(over, func(b Budget) bool { return b.Capped })) {
			return unpriced
		}
		if r.Output, err = req.grant(over, p); err != nil || len(over) == 0 {
			return err
		}
		ids := [4]any{}
		for i, b := range over {
			ids[i] = b.ID
		}
		tx.Later().Exec(s.q.Hold, r.ID, req.Execution, r.Input+r.Output, p.most(r.Input, r.Output), req.Lease.Milliseconds(), ids[0], ids[1], ids[2], ids[3])
		tx.Later().Exec(s.q.Count, ids[0], ids[1], ids[2], ids[3])
		r.held = true
		return nil
	})
	if err == nil && carried {
		err = errPeriod
	}
	return r, err
}

// most returns the highest possible cost of a call, in which the input is written to a cache.
func (p price) most(input, output int64) int64 {
	return price{input: max(p.input, p.cacheWrite), output: p.output}.cost(llm.Usage{PromptTokens: int(input), CompletionTokens: int(output)})
}

// grant returns the output that all budgets have left, or a [RefusedError] for the budget that has
// the least.
func (r Request) grant(over []Budget, p price) (int64, error) {
	need := r.Output
	if r.Min > 0 {
		need = r.Min
	}
	output := r.Output
	var least *Budget
	for i, b := range over {
		if left := r.room(b, p, b.Tokens.Remaining(), b.MicroUSD.Remaining()); left < output {
			output, least = left, &over[i]
		}
	}
	if output >= need {
		return output, nil
	}
	refused := &RefusedError{Scope: least.Scope, ScopeID: least.ScopeID, Remaining: max(0, output+r.Input), FreesAt: least.End}
	if least.lapse != nil && r.room(*least, p, least.Tokens.Allocated-least.Tokens.Consumed, least.MicroUSD.Allocated-least.MicroUSD.Consumed) >= need {
		refused.Others, refused.FreesAt = true, slices.MinFunc([]time.Time{least.End, *least.lapse}, time.Time.Compare)
	}
	return 0, refused
}

// room returns the output that a budget has left after the input. A model that costs nothing is
// free as long as any money is left.
func (r Request) room(b Budget, p price, tokens, microUSD int64) int64 {
	left := tokens - r.Input
	if !b.Capped {
		return left
	}
	money := microUSD - p.most(r.Input, 0)
	switch {
	case money < 0 || microUSD <= 0:
		return min(left, -1)
	case p.output > 0:
		// At most a million dollars are left, so the product does not overflow.
		left = min(left, money*million/p.output)
	}
	return left
}

// renewable returns the scopes whose next period must be made: those that cover the call, and the skills
// that its answer may ask for.
func (r Request) renewable(over []Budget) (due []Budget) {
	bounded := r.Day == 0
	for _, b := range over {
		repeats := b.CreatedBy != Automatic
		bounded = bounded || b.Scope == Agent && b.ScopeID == r.here() && (b.active() || repeats)
		if !b.active() && repeats {
			due = append(due, b)
		}
	}
	if !bounded {
		due = append(due, Budget{
			Scope: Agent, ScopeID: r.here(), Tokens: Account{Allocated: r.Day},
			MicroUSD: Account{Allocated: r.DayMicroUSD}, Capped: r.DayMicroUSD > 0, CreatedBy: Automatic,
		})
	}
	return due
}

// roll makes the next periods of budgets whose period is over. A new period ends where a planned
// one begins. An automatic daily budget gets the amounts of the request, any other gets those of
// its last period.
func (s *Store) roll(ctx context.Context, ws db.Workspace, req Request) error {
	err := s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		var now time.Time
		var over []Budget
		tx.Later().One([]any{&now}, s.q.LockPeriods)
		if err := tx.Each(ctx, collect(&over), s.q.Look, req.Agent, req.here()); err != nil {
			return err
		}
		due := req.renewable(over)
		for i := range due {
			b := &due[i]
			if b.CreatedBy == Automatic {
				b.Start, b.End = day(now)
			} else {
				b.Start, b.End = successor(b.Start, b.End, now)
			}
			tx.Later().Each(func(scan db.Scan) error {
				var planned OverlapError
				err := scan(&planned.ID, &planned.Start, &planned.End)
				b.End = planned.Start
				return err
			}, s.q.Overlap, b.Scope, b.ScopeID, b.Start, b.End)
		}
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		var kept []string
		for _, b := range due {
			id := s.ids()
			s.insert(tx.Later(), id, b)
			if b.CreatedBy != Automatic { // which bounds no attempts
				kept = append(kept, id)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return s.carryOver(ctx, tx, kept)
	})
	if err != nil {
		return fmt.Errorf("begin a period: %w", err)
	}
	return nil
}

// insert adds an unused budget to a batch.
func (s *Store) insert(b *db.Batch, id string, n Budget) {
	var money any
	if n.Capped {
		money = n.MicroUSD.Allocated
	}
	b.Exec(s.q.Insert, id, n.Scope, n.ScopeID, n.Tokens.Allocated, money, n.Start, n.End, n.CreatedBy)
}
