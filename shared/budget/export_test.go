package budget

import "time"

// For tests that need no database.
var (
	Successor = successor
	PlainName = plainName
)

// Project projects a budget that uses burn tokens a day.
func (b Budget) Project(burn int64, now time.Time) Projection { return b.project(burn, 0, now) }
