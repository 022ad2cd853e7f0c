// Package invoke invokes Lambda functions. It is a package of its own so that a function that invokes
// no other does not link the client.
package invoke

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// timeout limits an invocation, including its retries. Without it, a call from a VPC that has no route
// to AWS would hang.
const timeout = 15 * time.Second

// Async returns a function that starts an invocation and does not wait for it. It creates the client
// on first use, because most sandboxes never invoke a function. It is safe for concurrent use.
func Async() func(ctx context.Context, function string, payload []byte) error {
	client := sync.OnceValues(func() (*lambda.Client, error) {
		cfg, err := app.FunctionAWS()
		if err != nil {
			return nil, err
		}
		return lambda.NewFromConfig(cfg), nil
	})
	return func(ctx context.Context, function string, payload []byte) error {
		c, err := client()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		_, err = c.Invoke(ctx, &lambda.InvokeInput{
			FunctionName: aws.String(function), InvocationType: types.InvocationTypeEvent, Payload: payload,
		})
		return err
	}
}
