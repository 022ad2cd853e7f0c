// Package lambda does skills of kind lambda: a call invokes a function and waits for
// what it returns.
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
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Invoker is the part of the Lambda client that is used.
type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// functionName is a name, a partial or a whole ARN, each perhaps with a version or
// an alias.
var functionName = pattern.New(`^(arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]+:function:|[0-9]+:function:)?[A-Za-z0-9_-]+(:(\$LATEST|[A-Za-z0-9_-]+))?$`)

const maxFunctionName = 170

// payload is what the function gets. One that has an effect has it once under a key.
type payload struct {
	Skill     string          `json:"skill"`
	Arguments json.RawMessage `json:"arguments"`
	Key       string          `json:"key"`
	Workspace string          `json:"workspace"`
	TraceID   trace.ID        `json:"traceId,omitempty"`
}

// Kind makes the skills of kind lambda. Which functions may be invoked is for the
// function's role to say.
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
		if strings.Contains(message, "Task timed out") { // Lambda's words
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
	if value, err := remote.Decode(out.Payload); err == nil {
		return value, nil
	}
	return map[string]any{"text": strings.ToValidUTF8(string(out.Payload), "\uFFFD")}, nil
}

// once keeps the client from trying again by itself: the function would have its
// effect again.
func once(o *lambda.Options) { o.Retryer = aws.NopRetryer{} }

// said is the message of a function's error, or all of it.
func said(raw []byte) string {
	var e struct {
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		e.Message = string(raw)
	}
	return strings.TrimSpace(strings.ToValidUTF8(e.Message, "\uFFFD"))
}

// failure is the error of an invocation that brought nothing.
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

// statusOf is the status Lambda answered with; 0: no answer came.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return answer.HTTPStatusCode()
	}
	return 0
}

// refused is by whose failure Lambda did not run the function.
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

// word is an error's code if it looks like one.
func word(code string) string {
	if len(code) > 80 || !codes().MatchString(code) {
		return "unknown"
	}
	return code
}

var codes = pattern.New(`^[A-Za-z0-9]+$`)
