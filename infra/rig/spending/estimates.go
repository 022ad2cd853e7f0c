package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	history = 100  // completed tasks of each type, from which is learned
	held    = 200  // tasks of each type that are estimated afterwards
	spread  = 0.20 // of the noise: what a task uses is multiplied by e to the power of a normal number with this deviation
	goal    = 0.20 // the median of how far an estimate is off
)

// kinds are types of tasks with what they use in relation to the formula.
var kinds = []struct {
	name string
	uses float64
}{{"docs", 0.45}, {"review", 0.3}, {"code", 1.1}, {"tests", 0.7}, {"research", 2.4}}

// drawn is a task and what it used.
type drawn struct {
	shape budget.TaskShape
	used  int64
}

func draw(rng *rand.Rand, name string, uses float64) drawn {
	shape := budget.TaskShape{Type: name, Complexity: 1 + rng.IntN(10)}
	plain := float64(budget.Estimate(shape, nil))
	return drawn{shape, int64(math.Round(plain * uses * math.Exp(spread*rng.NormFloat64())))}
}

// estimates prints how far estimates are off before and after learning.
func estimates(ctx context.Context, out io.Writer, seed uint64) (err error) {
	w, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, k := range kinds {
		var b db.Batch
		for range history {
			d, id := draw(rng, k.name, k.uses), newID()
			b.Exec(w.q.Task, id, k.name, fmt.Sprintf(`{"complexity":%d}`, d.shape.Complexity))
			b.Exec(w.q.Usage, newID(), id, d.used)
		}
		b.Exec(w.q.Finish)
		if err := w.Do(ctx, w.ws, &b); err != nil {
			return fmt.Errorf("complete tasks: %w", err)
		}
	}
	var learned budget.Corrections
	err = w.Tx(ctx, w.ws, func(ctx context.Context, tx *db.Tx) (err error) {
		if _, err = w.budgets.Exhausted(ctx, tx); err == nil {
			learned = w.budgets.Corrections(tx.Later())
			err = tx.Flush(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	fmt.Fprintf(out, "Estimate against actual, seed %d. Complexity 1 to 10, %d completed tasks of each type, then %d new ones.\n", seed, history, held)
	fmt.Fprintf(out, "A task uses formula × factor of its type × e^(%.2f × normal noise).\n\n", spread)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "type\tfactor\tlearned\tmedian off before\tmedian off after\t")
	var before, after []float64
	for _, k := range kinds {
		var was, is []float64
		for range held {
			d := draw(rng, k.name, k.uses)
			was = append(was, off(budget.Estimate(d.shape, nil), d.used))
			is = append(is, off(budget.Estimate(d.shape, learned), d.used))
		}
		fmt.Fprintf(table, "%s\t%.2f\t%.3f\t%.1f %%\t%.1f %%\t\n", k.name, k.uses, float64(learned[k.name])/1000, 100*median(was), 100*median(is))
		before, after = append(before, was...), append(after, is...)
	}
	fmt.Fprintf(table, "all\t\t\t%.1f %%\t%.1f %%\t\n", 100*median(before), 100*median(after))
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if median(after) > goal {
		return fmt.Errorf("%w: the median is off by more than %.0f %%", errMissed, 100*goal)
	}
	return nil
}

// off is how far an estimate is from what was used.
func off(estimate, used int64) float64 {
	return math.Abs(float64(estimate)-float64(used)) / float64(used)
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
