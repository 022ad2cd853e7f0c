package budget

import (
	"context"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Verdict says whether what a task has used is in proportion to what it has changed.
type Verdict string

// The verdicts.
const (
	Valid         Verdict = "valid"
	Wasteful      Verdict = "invalid"
	NotApplicable Verdict = "not_applicable" // nothing was used, or nothing was changed, as in research
)

// A Validation is a verdict with the figures behind it.
type Validation struct {
	Verdict                Verdict
	Expected, Used         int64    // tokens
	Efficiency             *float64 // expected over used; nil: not applicable
	Reason, Recommendation string
}

const (
	perLine       = 150 // tokens that a changed line is expected to use
	minEfficiency = 0.5
	maxLines      = 100_000_000
)

// Validate compares what all attempts of a task have used with what changing that many lines is
// expected to use.
func (s *Store) Validate(ctx context.Context, ws db.Workspace, task string, lines int64) (Validation, error) {
	var used int64
	if err := s.db.One(ctx, ws, []any{&used}, s.q.TaskUsed, task); err != nil {
		return Validation{}, fmt.Errorf("read what a task has used: %w", err)
	}
	return validate(used, min(max(0, lines), maxLines)), nil
}

func validate(used, lines int64) Validation {
	v := Validation{Verdict: NotApplicable, Expected: lines * perLine, Used: used}
	switch {
	case used <= 0:
		v.Reason, v.Recommendation = "no usage is reported for the task", "report what was used, then validate again"
		return v
	case lines == 0:
		v.Reason, v.Recommendation = "no lines are changed, as in research", "commit: there is nothing to compare"
		return v
	}
	efficiency := float64(v.Expected) / float64(used)
	v.Verdict, v.Efficiency = Valid, &efficiency
	v.Reason = fmt.Sprintf("%d tokens are used where %d are expected", used, v.Expected)
	v.Recommendation = "commit"
	if efficiency < minEfficiency {
		v.Verdict = Wasteful
		v.Recommendation = "have a person look at the change before it is committed, and split such tasks into smaller ones"
	}
	return v
}
