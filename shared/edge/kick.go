package edge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// kicker invokes functions. It creates its client on first use, because most sandboxes serve one
// workspace and never invoke a function.
type kicker struct {
	kicked time.Time // time of the last kick by [Sandbox.KickOperate]
	mu     sync.Mutex
	client *lambda.Client
}

// Kick starts an invocation for one workspace's tick and does not wait for it. It is the heartbeat's
// fan-out. If a kick is lost, the next tick of the schedule serves the workspace.
func (s *Sandbox) Kick(ctx context.Context, t heartbeat.Tick) error {
	payload, err := encodeTick(t)
	if err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	if err := s.kick.invoke(ctx, s.cfg.Function, payload); err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	return nil
}

// KickTend invokes the function that TEND_FUNCTION names, which does what is due, and does not wait
// for it. If a kick is lost, that function's own schedule does the work. Without TEND_FUNCTION it does
// nothing.
func (s *Sandbox) KickTend(ctx context.Context) error {
	if s.cfg.TendFunction == "" {
		return nil
	}
	if err := s.kick.invoke(ctx, s.cfg.TendFunction, []byte(`{"source":"`+tendSource+`"}`)); err != nil {
		return fmt.Errorf("kick %s: %w", s.cfg.TendFunction, err)
	}
	return nil
}

// invoke invokes a function asynchronously.
func (k *kicker) invoke(ctx context.Context, function string, payload []byte) error {
	client, err := k.lambda()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	_, err = client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String(function), InvocationType: types.InvocationTypeEvent, Payload: payload,
	})
	return err
}

// KickOperate is [Sandbox.KickTend] for callers that store many rows in a short time. It sends at most
// one kick a second and delays the response by at most two seconds. Rows that are stored after the kick
// are found by the invocation that it started, or by the schedule within a minute. It is called by
// functions/webhook, whose response does not depend on it.
func (s *Sandbox) KickOperate(ctx context.Context, _ db.Workspace) {
	if !s.kick.due(s.clock()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kickTimeout)
	defer cancel()
	if err := s.KickTend(ctx); err != nil {
		s.log.WarnContext(ctx, "operate could not be kicked: its schedule does what is due", "error", err)
	}
}

const (
	// kickPause is the shortest time between two kicks.
	kickPause = time.Second
	// kickTimeout is the longest time by which a kick may delay a response.
	kickTimeout = 2 * time.Second
)

// due reports whether kickPause has passed since the last kick. If so, it records this kick.
func (k *kicker) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	since := now.Sub(k.kicked)
	if since >= 0 && since < kickPause {
		return false
	}
	k.kicked = now
	return true
}

func (k *kicker) lambda() (*lambda.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		cfg, err := app.FunctionAWS()
		if err != nil {
			return nil, err
		}
		k.client = lambda.NewFromConfig(cfg)
	}
	return k.client, nil
}

// awsTimeout limits a call to AWS, including its retries. Without it, a call from a VPC that has no
// route to AWS would hang.
const awsTimeout = 15 * time.Second
