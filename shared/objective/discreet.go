package objective

import (
	"context"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// discreet takes out the secrets that the run or the request knows: what an objective says
// is told to models, and shown.
func (o *Objective) discreet(ctx context.Context) {
	known := redact.From(ctx).Values()
	o.Title, o.Description, o.DoneCriterion = known.Text(o.Title), known.Text(o.Description), known.Text(o.DoneCriterion)
}

// discreet is a text without such secrets.
func discreet(ctx context.Context, text string) string {
	return redact.From(ctx).Values().Text(text)
}

// discreetSteps are steps without such secrets.
func discreetSteps(ctx context.Context, steps []Step) []Step {
	known := redact.From(ctx).Values()
	steps = slices.Clone(steps)
	for i, st := range steps {
		steps[i].Title, steps[i].DoneCriterion = known.Text(st.Title), known.Text(st.DoneCriterion)
		steps[i].Inputs = known.JSON(st.Inputs)
	}
	return steps
}
