package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	mixed     = 1000
	savedGoal = 40 // percent
)

// mix draws the i-th task of a thousand: a tenth critical or complex, half boilerplate or small, the rest
// between.
func mix(rng *rand.Rand, i int) budget.TaskShape {
	usual := 1 + rng.IntN(8)
	switch {
	case i < mixed/20:
		return budget.TaskShape{Type: "code", Complexity: usual, Priority: 9 + rng.IntN(2)}
	case i < mixed/10:
		return budget.TaskShape{Type: "code", Complexity: 9 + rng.IntN(2), Priority: 1 + usual}
	case i < mixed/10+mixed/4:
		return budget.TaskShape{Type: "boilerplate", Complexity: usual, Priority: usual}
	case i < mixed/10+mixed/2:
		return budget.TaskShape{Type: "code", Complexity: 1 + rng.IntN(5), Priority: usual}
	}
	return budget.TaskShape{Type: "code", Complexity: 6 + rng.IntN(3), Priority: usual}
}

// routing prints what routing saves against the top tier alone.
func routing(ctx context.Context, out io.Writer, seed uint64) (err error) {
	w, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var models budget.Tiers
	err = w.Tx(ctx, w.ws, func(ctx context.Context, tx *db.Tx) (err error) {
		models, err = w.budgets.Tiers(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read tiers: %w", err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	type sums struct{ tasks, tokens, cost, top int64 }
	of := map[budget.Tier]*sums{budget.Small: {}, budget.Middle: {}, budget.Top: {}}
	var all sums
	for i := range mixed {
		shape := mix(rng, i)
		tokens := budget.Estimate(shape, nil)
		routed := budget.Route(models, shape, tokens, budget.MaxMicroUSD)
		for _, s := range []*sums{of[routed.Tier], &all} {
			s.tasks++
			s.tokens += tokens
			s.cost += routed.MicroUSD
			s.top += models[budget.Top].Cost(tokens)
		}
	}
	fmt.Fprintf(out, "Routing against the top tier alone, seed %d: %d tasks, a tenth critical or complex, half boilerplate or small,\n", seed, mixed)
	fmt.Fprint(out, "the rest between. A task uses its estimate, three quarters of it as input.\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "tier\tmodel\ttasks\ttokens\tcost\ttop tier alone\tsaved\t")
	line := func(tier, model string, s sums) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t$%.2f\t$%.2f\t%.1f %%\t\n", tier, model, s.tasks, s.tokens, float64(s.cost)/1e6, float64(s.top)/1e6,
			100*float64(s.top-s.cost)/float64(max(1, s.top)))
	}
	for _, tier := range []budget.Tier{budget.Small, budget.Middle, budget.Top} {
		line(string(tier), models[tier].Name, *of[tier])
	}
	line("all", "", all)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if (all.top-all.cost)*100 < all.top*savedGoal {
		return fmt.Errorf("%w: less than %d %% is saved", errMissed, savedGoal)
	}
	return nil
}
