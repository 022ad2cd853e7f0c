package budget

import (
	"context"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Tier is a class of models.
type Tier string

// The tiers, from the cheapest.
const (
	Small  Tier = "small"
	Middle Tier = "middle"
	Top    Tier = "top"
)

var tiers = []Tier{Small, Middle, Top}

// A Model serves a tier. A million tokens cost Input and Output micro-dollars.
type Model struct {
	Name          string
	Input, Output int64
}

// Tiers says which model serves which tier. A tier without a model is not used.
type Tiers map[Tier]Model

// Cost returns what tokens are expected to cost, in micro-dollars rounded up: a quarter of them is
// output.
func (m Model) Cost(tokens int64) int64 {
	perMillion := (3*m.Input + m.Output + 3) / 4
	return sum(min(tokens, 1e12)/million*perMillion, (min(tokens, 1e12)%million*perMillion+million-1)/million)
}

// Routed is the model that serves a task.
type Routed struct {
	Tier     Tier
	Model    string // empty: no tier has a model
	MicroUSD int64  // what the task is expected to cost
	Why      string
}

const (
	critical        = 9      // the least priority that is critical
	topComplexity   = 8      // what is more complex is for the top tier
	smallTokens     = 10_000 // what needs fewer is for the small tier
	boilerplateType = "boilerplate"
)

// Route chooses the model for a task that is expected to use tokens: the top tier for what is critical
// or complex, the small one for boilerplate and what is short, and the middle one for the rest. A tier
// that costs more than the remaining micro-dollars, or has no model, falls to the next lower one.
func Route(models Tiers, t TaskShape, tokens, remaining int64) Routed {
	at, why := 1, "neither critical nor small"
	switch {
	case t.Priority >= critical:
		at, why = 2, "its priority is critical"
	case t.complexity() > topComplexity:
		at, why = 2, fmt.Sprintf("its complexity is %d", t.complexity())
	case strings.EqualFold(t.Type, boilerplateType):
		at, why = 0, "it is boilerplate"
	case tokens < smallTokens:
		at, why = 0, fmt.Sprintf("it needs %d tokens", tokens)
	}
	out := Routed{Tier: tiers[at]}
	for ; at >= 0; at-- {
		m, has := models[tiers[at]]
		if !has {
			why += fmt.Sprintf("; no model serves the %s tier", tiers[at])
			continue
		}
		cost := m.Cost(tokens)
		out.Tier, out.Model, out.MicroUSD = tiers[at], m.Name, cost
		if cost <= remaining {
			break
		}
		why += fmt.Sprintf("; the budget can't pay the %s tier", tiers[at])
	}
	out.Why = why
	return out
}

// Tiers reads which models serve the tiers: what the workspace chose, or else the cheapest that is
// offered for the tier and has a price.
func (s *Store) Tiers(ctx context.Context, tx Tx) (Tiers, error) {
	out, err := s.TiersLater(ctx, tx)
	if err == nil {
		err = tx.Flush(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read model tiers: %w", err)
	}
	return out, nil
}

// TiersLater is [Store.Tiers], but with the next statements of the transaction: the tiers are known after
// those.
func (s *Store) TiersLater(ctx context.Context, tx Tx) (Tiers, error) {
	if err := s.freshPricesIn(ctx, tx); err != nil {
		return nil, err
	}
	out := Tiers{}
	tx.Later().Each(func(scan db.Scan) error {
		var tier Tier
		var model string
		var chosen bool
		var rank int64
		if err := scan(&tier, &model, &chosen, &rank); err != nil {
			return err
		}
		p, priced := s.prices.of(model)
		if _, taken := out[tier]; !taken && (priced || chosen) {
			out[tier] = Model{model, p.input, p.output}
		}
		return nil
	}, s.q.Tiers)
	return out, nil
}

// ChooseTier makes a model serve a tier in the workspace. It returns an [UnpricedError] if the model
// has no price.
func (s *Store) ChooseTier(ctx context.Context, tx Tx, tier Tier, model string) error {
	if err := s.freshPricesIn(ctx, tx); err != nil {
		return err
	}
	if _, priced := s.prices.of(model); !priced {
		return &UnpricedError{model}
	}
	if _, err := tx.Exec(ctx, s.q.ChooseTier, tier, model); err != nil {
		return fmt.Errorf("choose a model for a tier: %w", err)
	}
	return nil
}
