// Package lambda carries out skills of kind lambda. A call invokes an AWS Lambda function and waits
// for its result.
package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/schema"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Invoker is the part of the Lambda client that this package uses.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// functionName matches a name, a partial ARN or a full ARN, optionally with a version or an alias.
var functionName = pattern.New(`^(arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]+:function:|[0-9]+:function:)?[A-Za-z0-9_-]+(:(\$LATEST|[A-Za-z0-9_-]+))?$`)

const maxFunctionName = 170

// payload is what the function receives. Key is the idempotency key: the function should have its
// effect once per key.
type payload struct {
	Skill     string          `json:"skill"`
	Arguments json.RawMessage `json:"arguments"`
	Key       string          `json:"key"`
	Workspace string          `json:"workspace"`
	TraceID   trace.ID        `json:"traceId,omitempty"`
}

// Kind returns the factory of skills of kind lambda. The IAM role of this process limits which
// functions it may invoke.
func Kind(client Invoker) skill.Factory {
	return func(d skill.Definition) (skill.Skill, error) {
		var c struct {
			FunctionName string `json:"functionName"`
		}
		if err := skill.DecodeConfig(d.Config, &c, "functionName"); err != nil {
			return skill.Skill{}, err
		}
		if len(c.FunctionName) > maxFunctionName || !functionName().MatchString(c.FunctionName) {
			return skill.Skill{}, skill.Invalid("config.functionName", "must be the name or the ARN of a function")
		}
		return skill.Skill{Do: func(ctx context.Context, call skill.Call) (any, error) {
			return invoke(ctx, client, c.FunctionName, d.Name, call)
		}}, nil
	}
}

func invoke(ctx context.Context, client Invoker, function, name string, c skill.Call) (any, error) {
	id, _ := trace.From(ctx)
	raw, err := json.Marshal(payload{name, c.Arguments, c.Key, string(c.Workspace), id})
	if err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	ctx, left := skill.Watch(ctx)
	out, err := client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &function, InvocationType: types.InvocationTypeRequestResponse, Payload: raw,
	}, once)
	if err != nil {
		return nil, failure(err, left)
	}
	if out.FunctionError != nil {
		message := said(out.Payload)
		if strings.Contains(message, "Task timed out") { // Lambda's own message
			return nil, &skill.UncertainError{Reason: "the function was cut off in the middle: its time was up"}
		}
		return nil, skill.Fail(skill.Theirs, "the function failed. It said: %s", strconv.Quote(remote.Clip(message)))
	}
	if len(out.Payload) > remote.MaxAnswer {
		return nil, skill.Fail(skill.Theirs, "the function has done it, and its answer is longer than 1 MiB: it was not read")
	}
	if len(bytes.TrimSpace(out.Payload)) == 0 {
		return map[string]any{"status": out.StatusCode}, nil
	}
	if value, err := schema.Decode(out.Payload); err == nil {
		return value, nil
	}
	return map[string]any{"text": strings.ToValidUTF8(string(out.Payload), "\uFFFD")}, nil
}

// once disables the retries of the SDK's client: a retry could repeat the function's effect.
func once(o *lambda.Options) { o.Retryer = aws.NopRetryer{} }

// said returns the message of a function's error, or the whole payload if it has none.
func said(raw []byte) string {
	var e struct {
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		e.Message = string(raw)
	}
	return strings.TrimSpace(strings.ToValidUTF8(e.Message, "\uFFFD"))
}

// failure returns the error of an invocation that returned no result.
func failure(err error, left func() bool) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%w: %w", refused(api, err), err)
	}
	_, sent := errors.AsType[*smithyhttp.RequestSendError](err)
	answered := statusOf(err) != 0
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case !sent && !answered && !ended: // no credentials, no region
		return fmt.Errorf("%w: %w", skill.Fail(skill.Ours, "the function could not be invoked"), err)
	case answered || left():
		return fmt.Errorf("%w: %w", &skill.UncertainError{Reason: "the function was invoked, and no answer came"}, err)
	}
	return fmt.Errorf("%w: %w", skill.Fail(skill.Theirs, "Lambda could not be reached"), err)
}

// statusOf returns the HTTP status of Lambda's answer, or 0 if no answer came.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return answer.HTTPStatusCode()
	}
	return 0
}

// refused classifies an invocation that Lambda did not run: too many requests, Lambda's failure, or
// our configuration.
func refused(api smithy.APIError, err error) error {
	status := statusOf(err)
	switch {
	case api.ErrorCode() == "TooManyRequestsException" || status == 429:
		return skill.Fail(skill.RateLimit, "Lambda refused the invocation: too many at once; try again later")
	case status >= 500 || api.ErrorFault() == smithy.FaultServer:
		return skill.Fail(skill.Theirs, "Lambda could not run the function (%s)", word(api.ErrorCode()))
	}
	return skill.Fail(skill.Ours, "Lambda refused the invocation (%s)", word(api.ErrorCode()))
}

// word returns an error's code if it looks like one. It returns "unknown" otherwise.
func word(code string) string {
	if len(code) > 80 || !codes().MatchString(code) {
		return "unknown"
	}
	return code
}

var codes = pattern.New(`^[A-Za-z0-9]+$`)
