// Package hook builds the handler that receives webhooks. It links the inbox and little else, so
// that its function starts fast.
package hook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/keeper"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/surface/webhook"
)

// New builds the handler of webhooks over a core. kick starts the processing of a workspace's
// stored webhooks. It is called by functions/webhook and by the local runner.
func New(core *app.Core, kick func(context.Context, db.Workspace)) (*webhook.Handler, error) {
	secrets, err1 := secret.New(core.DB, keeper.Of(core))
	out, err2 := outbox.New(core.DB, core.IDs, rand.Float64)
	limits, err3 := ratelimit.New(core.DB)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("wire webhooks: %w", err)
	}
	box, err := inbox.New(core.DB, secrets, out, core.IDs)
	if err != nil {
		return nil, fmt.Errorf("wire webhooks: %w", err)
	}
	return &webhook.Handler{
		Inbox:    box,
		Limits:   ratelimit.NewCache(limits, core.Clock, core.Log),
		Failures: ratelimit.NewFailures(ratelimit.BadCredentials, core.Clock),
		Traces:   core.Traces,
		Kick:     kick,
		Meters:   core.Meters,
		Log:      core.Log,
	}, nil
}
