package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/notice"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// NewHeartbeat builds a heartbeat that sends no e-mail and no SMS, because it does not link their
// clients, and that starts no agents. It leaves such messages in the outbox, and kick invokes a function that sends them soon.
// If kick is nil or fails, they are sent within a minute. instance identifies this process in the
// names of holders. fan starts a separate invocation for a workspace's heartbeat; nil: this process
// runs the heartbeats of all workspaces one after the other. It is called by functions/heartbeat.
func NewHeartbeat(
	core *app.Core, instance string, fan func(context.Context, heartbeat.Tick) error, kick func(context.Context) error,
) (*heartbeat.Heartbeat, error) {
	s, err := New(core, instance)
	if err != nil {
		return nil, err
	}
	s.Heartbeat.Fan, s.Heartbeat.Kick = fan, kick
	s.Heartbeat.Elsewhere = append([]string{
		thread.Topic(channel.NameEmail), thread.Topic(channel.NameSMS), notice.Topic(channel.NameEmail), notice.Topic(channel.NameSMS),
	}, starting...)
	for _, topic := range starting {
		delete(s.Sender.Handlers, topic)
	}
	return s.Heartbeat, nil
}

// sweep deletes expired reservations and unused rate limits.
func (s *Surfaces) sweep(ctx context.Context, ws db.Workspace) error {
	_, failed := s.Budgets.Sweep(ctx, ws)
	limits, err := ratelimit.New(s.DB)
	if err != nil {
		return errors.Join(failed, err)
	}
	var b db.Batch
	limits.Purge(&b)
	if err := s.DB.Do(ctx, ws, &b); err != nil {
		return errors.Join(failed, fmt.Errorf("sweep rate limits: %w", err))
	}
	return failed
}
