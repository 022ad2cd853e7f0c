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

// kicker invokes the function it runs in once more. The client is made when first
// needed: most sandboxes beat for one workspace and never do.
type kicker struct {
	function string
	mu       sync.Mutex
	client   *lambda.Client
}

// Kick hands a workspace's tick to an invocation of its own and does not wait for
// it. It is the heartbeat's fan-out; a kick that gets lost is made up for by the
// next tick.
func (s *Sandbox) Kick(ctx context.Context, t heartbeat.Tick) error {
	payload, err := encodeTick(t)
	if err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	client, err := s.kick.lambda()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	_, err = client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String(s.kick.function), InvocationType: types.InvocationTypeEvent, Payload: payload,
	})
	if err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	return nil
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
