package objective

import (
	"context"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// discreet redacts the secrets that the execution or the request knows, because an objective's
// texts are sent to models and shown to people.
func (o *Objective) discreet(ctx context.Context) {
	known := redact.From(ctx).Values()
	o.Title, o.Description, o.DoneCriterion = known.Text(o.Title), known.Text(o.Description), known.Text(o.DoneCriterion)
}

// discreet returns a text with known secrets redacted.
func discreet(ctx context.Context, text string) string {
	return redact.From(ctx).Values().Text(text)
}

// discreetSteps returns a copy of the steps with known secrets redacted.
func discreetSteps(ctx context.Context, steps []Step) []Step {
	known := redact.From(ctx).Values()
	steps = slices.Clone(steps)
	for i, st := range steps {
		steps[i].Title, steps[i].DoneCriterion = known.Text(st.Title), known.Text(st.DoneCriterion)
		steps[i].Inputs = known.JSON(st.Inputs)
	}
	return steps
}
