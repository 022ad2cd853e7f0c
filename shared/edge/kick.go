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
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// kicker invokes functions. The client is made when first needed: most sandboxes beat for
// one workspace and never do.
type kicker struct {
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
