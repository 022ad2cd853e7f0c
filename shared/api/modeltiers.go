package api

import (
	"context"
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// tierItem is the model that serves a tier, with what a million tokens cost.
type tierItem struct {
	Tier           budget.Tier `json:"tier" enum:"small,middle,top"`
	Model          string      `json:"model"`
	InputMicroUSD  int64       `json:"inputMicroUsd" doc:"Millionths of a dollar for a million tokens"`
	OutputMicroUSD int64       `json:"outputMicroUsd"`
}

// tiersOf lists the tiers that have a model, from the cheapest.
func tiersOf(models budget.Tiers) []tierItem {
	items := []tierItem{}
	for _, tier := range []budget.Tier{budget.Small, budget.Middle, budget.Top} {
		if m, has := models[tier]; has {
			items = append(items, tierItem{tier, m.Name, m.Input, m.Output})
		}
	}
	return items
}

// listTiers is called by the Engine Room and by scripts.
func (s *server) listTiers(ctx context.Context, in *struct {
	Paging
}) (*answer[page[tierItem]], error) {
	var models budget.Tiers
	err := s.DB.Tx(ctx, workspace(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		models, err = s.Budgets.Tiers(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return slicePage(tiersOf(models), in.Cursor, in.Limit)
}

type putTierInput struct {
	Name budget.Tier `path:"name" enum:"small,middle,top"`
	Body struct {
		Model string `json:"model" minLength:"1" maxLength:"255" doc:"A model that has a price"`
	}
}

// putTier is called by the Engine Room and by scripts.
func (s *server) putTier(ctx context.Context, in *putTierInput) (*answer[tierItem], error) {
	var models budget.Tiers
	err := s.change(ctx, "model_tier.put", func(ctx context.Context, tx *db.Tx) (err error) {
		if err = s.Budgets.ChooseTier(ctx, tx, in.Name, in.Body.Model); err == nil {
			models, err = s.Budgets.Tiers(ctx, tx)
		}
		return err
	}, "tier", in.Name, "model", in.Body.Model)
	if _, unpriced := errors.AsType[*budget.UnpricedError](err); unpriced {
		return nil, invalid(problem.At("body.model",
			"expected a model with a price: the owner of the database adds it to the table model_prices"))
	}
	if err != nil {
		return nil, err
	}
	m := models[in.Name]
	return answered(tierItem{in.Name, m.Name, m.Input, m.Output}), nil
}
