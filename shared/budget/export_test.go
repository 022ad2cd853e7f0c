package budget

import "time"

// For the tests of what is reckoned without a database.
var (
	Successor = successor
	PlainName = plainName
)

// Project is the projection of a budget of which burn tokens a day are used.
func (b Budget) Project(burn int64, now time.Time) Projection { return b.project(burn, now) }
