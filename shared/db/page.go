package db

import "time"

// Position is the position of a row in a listing that is sorted by time and id. The zero Position is
// the beginning.
type Position struct {
	At time.Time
	ID string
}

// LastID is the id after those of all rows.
const LastID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// EndOfTime is a time after those of all rows. Every engine can store it.
var EndOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Args returns the arguments of a query that lists the rows before a position, newest first: those
// given, then the position's time and id.
func (p Position) Args(args ...any) []any {
	if p.ID == "" {
		p = Position{EndOfTime, LastID}
	}
	return append(args, p.At, p.ID)
}

// Between returns the bounds of a filter by time. A zero time is no bound.
func Between(since, until time.Time) (from, to time.Time) {
	if since.IsZero() {
		since = time.Unix(0, 0)
	}
	if until.IsZero() {
		until = EndOfTime
	}
	return since, until
}

const (
	defaultPage = 50
	maxPage     = 200
)

// PageSize returns the number of rows of a page for which a caller asks for n: at most 200, and 50 when
// n is zero. A query reads one row more, so that [Page] can tell whether there are more.
func PageSize(n int) int {
	if n <= 0 {
		return defaultPage
	}
	return min(n, maxPage)
}

// Page returns the first size rows. more reports whether there are others.
func Page[T any](rows []T, size int) (page []T, more bool) {
	if len(rows) > size {
		return rows[:size], true
	}
	return rows, false
}
