// Package lambda starts agents that are AWS Lambda functions. It is the spawner lambda.
package lambda

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Invoker is the part of the Lambda client that this package uses.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Spawner invokes the function that the agent's spawnerTarget names. The IAM role of this process limits
// which functions it may invoke.
type Spawner struct{ Client Invoker }

// Spawn implements [coordinate.Spawner]. The invocation is asynchronous: Lambda queues it, and may deliver it
// twice. The function should do its work once per idempotencyKey, which its event names. The session is the key.
func (s Spawner) Spawn(ctx context.Context, start coordinate.Start) (string, error) {
	if start.Target == "" {
		return "", outbox.Permanently(errors.New("the agent has no spawnerTarget: it must name a function"))
	}
	body, err := start.Event()
	if err != nil {
		return "", outbox.Permanently(err)
	}
	_, err = s.Client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &start.Target, InvocationType: types.InvocationTypeEvent, Payload: body})
	if err != nil {
		return "", failure(err)
	}
	return start.Key, nil
}

// failure says whether another try may succeed, in words that repeat nothing of the request.
func failure(err error) error {
	status := 0
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = answer.HTTPStatusCode()
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return errors.New("the service of AWS Lambda could not be reached")
	}
	why := fmt.Errorf("the invocation was refused by AWS Lambda (%s)", word(api.ErrorCode()))
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || api.ErrorFault() == smithy.FaultServer ||
		api.ErrorCode() == "TooManyRequestsException" {
		return why
	}
	return outbox.Permanently(why)
}

// word returns an error's code if it looks like one.
func word(code string) string {
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	if len(code) > 64 || strings.ContainsFunc(code, func(r rune) bool { return !letter(r) }) {
		return "unknown"
	}
	return code
}
