// Package budget stores what may be spent and what was spent. Before a model call, the caller
// reserves the most that the call may use in every budget that covers it, all or nothing.
// Afterwards it settles what the call used. So a budget is not exceeded, however many callers spend
// concurrently. A reservation lives as long as its lease; therefore the reservation of a killed
// process ends by itself.
//
// A decision is made under the locks of the budgets' rows, which are taken in the order of their
// ids, in a statement that begins after them. A caller that adds a period first locks the
// workspace's row, before any budget. The reserved amount is never incremented or decremented: it
// is always computed as the sum of the live reservations.
//
// A budget renews itself: the first reservation after the end of its period makes the next period,
// with the same length and amounts.
//
// A model call reserves for as long as a lease. An attempt at a task reserves its estimate when it is
// assigned, and keeps the reservation until it ends: a trigger on the attempt settles it in the
// transaction that ends the attempt. What the agent reports meanwhile goes from the reservation to
// consumption, and may overdraw: it has been used.
package budget

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Scope is the kind of thing that a budget covers.
type Scope string

// The scopes.
const (
	Global    Scope = "global"
	Project   Scope = "project"
	Milestone Scope = "milestone"
	Task      Scope = "task"
	Agent     Scope = "agent"
	Skill     Scope = "skill"
)

func (s Scope) known() bool {
	switch s {
	case Global, Project, Milestone, Task, Agent, Skill:
		return true
	}
	return false
}

// Automatic is the creator of the budgets that are made for each day.
const Automatic = "lanekeeper"

// Bounds of a budget.
const (
	MaxTokens   int64 = 1e15
	MaxMicroUSD int64 = 1e12 // a million dollars
	minPeriod         = time.Hour
	maxScopeID        = 255 // characters
)

// An Account is what may be used in a period, and what is used.
type Account struct {
	Allocated, Consumed int64
	Reserved            int64 // by live reservations
}

// Remaining returns what can still be reserved. With an overdraft it is negative.
func (a Account) Remaining() int64 { return a.Allocated - a.Consumed - a.Reserved }

// Overdraft returns how much more is consumed and reserved than is allocated.
func (a Account) Overdraft() int64 { return max(0, -a.Remaining()) }

// A Budget is the limit for one scope in one period.
type Budget struct {
	ID    string
	Scope Scope
	// ScopeID is empty only for the global scope. The scope id of an agent on one surface, such as
	// in its beats, is agent:surface.
	ScopeID string
	Tokens  Account
	// MicroUSD is money in millionths of a dollar. It is limited only when Capped.
	MicroUSD             Account
	Capped               bool
	Start, End           time.Time // the period; End is exclusive
	Version              int       // number of changes by people
	Pace                 Pace      // of tasks, as the latest cycle that projected the budget has set it
	CreatedBy            string
	CreatedAt, UpdatedAt time.Time

	lapse  *time.Time // when the last of the live reservations ends
	now    time.Time  // when the budget was read
	behind bool       // an open attempt has its reservation in an earlier period
}

// active reports whether the budget's period included the time when it was read.
func (b Budget) active() bool { return !b.now.Before(b.Start) && b.now.Before(b.End) }

func collect(into *[]Budget) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, b *Budget) error {
		var money *int64
		if err := scan(&b.ID, &b.Scope, &b.ScopeID, &b.Tokens.Allocated, &b.Tokens.Consumed, &b.Tokens.Reserved,
			&money, &b.MicroUSD.Consumed, &b.MicroUSD.Reserved,
			&b.Start, &b.End, &b.Version, &b.Pace, &b.CreatedBy, &b.CreatedAt, &b.UpdatedAt, &b.lapse, &b.now, &b.behind); err != nil {
			return err
		}
		if money != nil {
			b.Capped, b.MicroUSD.Allocated = true, *money
		}
		return nil
	})
}

var (
	// ErrNotFound means that the workspace has no such budget.
	ErrNotFound = errors.New("no such budget")
	// ErrChanged means that somebody else has changed the budget meanwhile.
	ErrChanged = errors.New("the budget has been changed meanwhile")
)

// A RefusedError says which budget does not have enough, how many tokens it has left, and when
// there may be enough.
type RefusedError struct {
	Scope     Scope
	ScopeID   string
	Remaining int64
	Money     bool // Remaining is money, in millionths of a dollar
	TooSmall  bool // a whole period's is not enough
	Others    bool // there is enough, and live reservations of others have it
	Pace      Pace // not empty: there is enough, and it is spent too fast for work of that priority
	FreesAt   time.Time
}

func (e *RefusedError) Error() string {
	if e.Pace != "" {
		return fmt.Sprintf("the budget of %s is spent too fast (%s), and only tasks of a higher priority begin, until %s at the latest",
			e.Level(), e.Pace, e.FreesAt.UTC().Format(time.RFC3339))
	}
	left := fmt.Sprintf("%d tokens", e.Remaining)
	if e.Money {
		left = dollars(e.Remaining)
	}
	if e.TooSmall {
		return fmt.Sprintf("insufficient budget: %s has %s left, and even in a whole period less than is needed", e.Level(), left)
	}
	return fmt.Sprintf("insufficient budget: %s has %s left until %s", e.Level(), left, e.FreesAt.UTC().Format(time.RFC3339))
}

// dollars formats millionths of a dollar: below a dollar with as many digits as are significant.
func dollars(micro int64) string {
	digits := 2
	if -million < micro && micro < million {
		digits = -1
	}
	return "$" + strconv.FormatFloat(float64(micro)/million, 'f', digits, 64)
}

// Until returns when there may be enough; nil: not before more is allocated.
func (e *RefusedError) Until() *time.Time {
	if e.TooSmall {
		return nil
	}
	return &e.FreesAt
}

// Level names the budget in a sentence, such as "project 0199a1b2-…".
func (e *RefusedError) Level() string { return level(e.Scope, e.ScopeID) }

// Level names the budget in a sentence, such as "project 0199a1b2-…".
func (b Budget) Level() string { return level(b.Scope, b.ScopeID) }

func level(s Scope, id string) string {
	if id == "" {
		return string(s)
	}
	return string(s) + " " + id
}

// An UnpricedError names a model without a price. Its cost can't be counted, although money is
// capped.
type UnpricedError struct{ Model string }

func (e *UnpricedError) Error() string {
	return fmt.Sprintf("money is capped, and the model %s has no price", e.Model)
}

// An OverlapError names a budget of the same scope whose period overlaps.
type OverlapError struct {
	ID         string
	Start, End time.Time
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("the period overlaps that of budget %s, %s to %s", e.ID, e.Start.UTC().Format(time.RFC3339), e.End.UTC().Format(time.RFC3339))
}

// An InvalidError says what is wrong with a field. Field is its name in JSON.
type InvalidError struct{ Field, Problem string }

func (e *InvalidError) Error() string { return "invalid budget: " + e.Field + " " + e.Problem }

func (b Budget) check() error {
	length := utf8.RuneCountInString(b.ScopeID)
	switch {
	case !b.Scope.known():
		return &InvalidError{"scope", "must be global, project, milestone, task, agent or skill"}
	case (b.Scope == Global) != (b.ScopeID == ""):
		return &InvalidError{"scopeId", "must name what the scope is of, and be left out for global"}
	case length > maxScopeID:
		return &InvalidError{"scopeId", "may have 255 characters at most"}
	case b.End.Sub(b.Start) < minPeriod:
		return &InvalidError{"periodEnd", "must be an hour after periodStart at least"}
	case b.Start.Year() < 2000 || b.End.Year() > 9000:
		return &InvalidError{"periodStart", "must be within the years 2000 to 9000"}
	}
	return cmp.Or(within("allocated", b.Tokens.Allocated, 0, MaxTokens), within("allocatedMicroUsd", b.MicroUSD.Allocated, 0, MaxMicroUSD))
}

func within(field string, v, least, most int64) error {
	if v < least || v > most {
		return &InvalidError{field, fmt.Sprintf("must be %d to %d", least, most)}
	}
	return nil
}

// successor returns the period that contains now and repeats [start, end), which is over. Calendar
// months stay calendar months; other periods keep their length.
func successor(start, end, now time.Time) (time.Time, time.Time) {
	start, end = start.UTC(), end.UTC()
	months := 12*(end.Year()-start.Year()) + int(end.Month()-start.Month())
	if start.Day() <= 28 && months > 0 && start.AddDate(0, months, 0).Equal(end) {
		for !now.Before(end) {
			start, end = end, end.AddDate(0, months, 0)
		}
		return start, end
	}
	length := end.Sub(start)
	start = start.Add(now.Sub(start).Truncate(length))
	return start, start.Add(length)
}

// day returns the calendar day in UTC that contains now.
func day(now time.Time) (start, end time.Time) {
	start = now.UTC().Truncate(24 * time.Hour)
	return start, start.Add(24 * time.Hour)
}

// sum adds amounts that are not negative. At an overflow it returns the largest int64.
func sum(amounts ...int64) (total int64) {
	for _, n := range amounts {
		total += min(n, math.MaxInt64-total)
	}
	return total
}
