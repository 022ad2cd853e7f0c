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

// kicker invokes functions. The client is made when first needed: most sandboxes beat for
// one workspace and never do.
type kicker struct {
	kicked time.Time // when [Sandbox.KickOperate] last did
	mu     sync.Mutex
	client *lambda.Client
}

// Kick hands a workspace's tick to an invocation of its own and does not wait for
// it. It is the heartbeat's fan-out; a kick that gets lost is made up for by the
// next tick.
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

// KickTend has the function that TEND_FUNCTION names do what is due, and does not wait for it. A
// kick that gets lost is made up for by that function's schedule. Where no function is named it
// does nothing.
func (s *Sandbox) KickTend(ctx context.Context) error {
	if s.cfg.TendFunction == "" {
		return nil
	}
	if err := s.kick.invoke(ctx, s.cfg.TendFunction, []byte(`{"source":"`+tendSource+`"}`)); err != nil {
		return fmt.Errorf("kick %s: %w", s.cfg.TendFunction, err)
	}
	return nil
}

// invoke hands an event to a function and does not wait for it.
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

// KickOperate is [Sandbox.KickTend] for whoever stores much in a short while: of several kicks one is
// made, and none holds up an answer for long. What comes behind it is found by the invocation, or by
// the schedule's within a minute. It is called by functions/webhook, whose answer does not depend on
// it.
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
	// kickPause is how long no further kick is made.
	kickPause = time.Second
	// kickTimeout is how long a kick may hold up an answer.
	kickTimeout = 2 * time.Second
)

// due reports whether operate is to be kicked now.
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

// awsTimeout ends a call of AWS, its retries included: a VPC without a way there
// would hang it.
const awsTimeout = 15 * time.Second
