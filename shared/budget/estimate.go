package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A TaskShape is what is known of a task before it is worked on. The zero value of a field means that
// nothing is known.
type TaskShape struct {
	Type            string
	Complexity      int   // 1 and up; [DefaultComplexity] where it is not known
	EstimatedTokens int64 // what somebody thinks that it uses
	Priority        int   // 1 to 10
}

// The formula of an estimate: complexity × 1000 tokens × 1.2 for tests × 1.3 of buffer × 1.15 for the
// phase.
const (
	DefaultComplexity = 5
	perComplexity     = 1000 * 12 * 13 * 115 / (10 * 10 * 100)
	maxComplexity     = 1000
)

// minSamples is how many finished tasks of a type its correction needs.
const minSamples = 20

// Corrections say for task types by how much the formula misses what their tasks use: the median of
// used over estimated, in thousandths. A type without an entry is not corrected.
type Corrections map[string]int64

// Shape reads a task's shape from its metadata, a JSON object. Numbers that make no sense count as
// not known.
func Shape(taskType string, priority int, metadata json.RawMessage) TaskShape {
	var of map[string]json.RawMessage
	_ = json.Unmarshal(metadata, &of) // what can't be read says nothing
	return TaskShape{
		Type: taskType, Priority: priority,
		Complexity:      int(number(of["complexity"], maxComplexity)),
		EstimatedTokens: number(of["estimatedTokens"], MaxTokens),
	}
}

// number reads a positive number and rounds it up, or returns 0. It is at most most.
func number(raw json.RawMessage, most int64) int64 {
	var n float64
	if json.Unmarshal(raw, &n) != nil || !(n > 0) {
		return 0
	}
	return int64(min(math.Ceil(n), float64(most)))
}

func (t TaskShape) complexity() int64 {
	if t.Complexity <= 0 {
		return DefaultComplexity
	}
	return int64(min(t.Complexity, maxComplexity))
}

// Estimate returns how many tokens a task is expected to use, at least one. A number that somebody has
// given is the estimate. Otherwise the formula is corrected by what is known of the task's type, and
// rounded up.
func Estimate(t TaskShape, c Corrections) int64 {
	if t.EstimatedTokens > 0 {
		return min(t.EstimatedTokens, MaxTokens)
	}
	permille, learned := c[t.Type]
	if !learned {
		permille = 1000
	}
	permille = min(max(1, permille), 1_000_000)
	return (t.complexity()*perComplexity*permille + 999) / 1000
}

// Corrections adds to a batch that what was learned is read. [Store.Exhausted] learns.
func (s *Store) Corrections(b *db.Batch) Corrections {
	c := Corrections{}
	b.Each(db.Put(c, func(scan db.Scan, taskType *string, permille *int64) error {
		return scan(taskType, new(int), permille)
	}), s.q.Corrections, minSamples)
	return c
}

// Headroom says whether an attempt could be assigned as far as budgets go.
type Headroom struct {
	Tokens  int64         // what the task is expected to use
	Refused *RefusedError // which budget has too little; nil: none
}

// Headroom reads, without a lock, whether the budgets of a cover have enough for a task. A budget whose
// period is over has: it begins anew when the task is assigned.
func (s *Store) Headroom(ctx context.Context, ws db.Workspace, c Cover, t TaskShape) (Headroom, error) {
	var h Headroom
	err := s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		var over []Budget
		tx.Later().Each(collect(&over), s.q.LookCovers, encodeScopes(c.scopes()))
		learned := s.Corrections(tx.Later())
		models, err := s.Tiers(ctx, tx)
		if err != nil {
			return err
		}
		_, current := repeating(over)
		l := newLedger(current)
		h.Tokens = Estimate(t, learned)
		_, money := l.Remaining(c)
		h.Refused = l.Fits(c, h.Tokens, Route(models, t, h.Tokens, money).MicroUSD)
		return nil
	})
	if err != nil {
		return Headroom{}, fmt.Errorf("look for what budgets have left: %w", err)
	}
	return h, nil
}
