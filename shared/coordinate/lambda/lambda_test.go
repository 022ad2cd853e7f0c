package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	spawner "github.com/lanekeeper/lanekeeper/shared/coordinate/lambda"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// fake is a client that answers as it is told.
type fake struct {
	err error
	got *lambda.InvokeInput
}

func (f *fake) Invoke(_ context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	f.got = in
	return &lambda.InvokeOutput{}, f.err
}

func TestAFunctionIsInvokedAsynchronously(t *testing.T) {
	start := coordinate.Start{
		Workspace: "w", Agent: "a", Target: "worker", Task: "t", Attempt: 2, Key: "task:t:2", Title: "title", Input: json.RawMessage(`{"n":1}`),
	}
	f := &fake{}
	session, err := spawner.Spawner{Client: f}.Spawn(t.Context(), start)
	if err != nil || session != "task:t:2" {
		t.Fatalf("%q, %v", session, err)
	}
	var body struct {
		TaskID         string
		Attempt        int
		IdempotencyKey string
		Context        struct{ InputContext map[string]int }
	}
	if err := json.Unmarshal(f.got.Payload, &body); err != nil || f.got.InvocationType != types.InvocationTypeEvent || *f.got.FunctionName != "worker" ||
		body.TaskID != "t" || body.Attempt != 2 || body.IdempotencyKey != "task:t:2" || body.Context.InputContext["n"] != 1 {
		t.Errorf("%s, %+v, %v", f.got.Payload, f.got, err)
	}
}

func TestWhichFailuresAreFinal(t *testing.T) {
	throttled, missing := "TooManyRequestsException", "ResourceNotFoundException"
	for _, c := range []struct {
		name   string
		target string
		err    error
		final  bool
	}{
		{"no function", "", nil, true},
		{"throttled", "f", &types.TooManyRequestsException{Message: &throttled}, false},
		{"Lambda's failure", "f", &types.ServiceException{}, false},
		{"no such function", "f", &types.ResourceNotFoundException{Message: &missing}, true},
		{"no answer", "f", errors.New("dial tcp 10.0.0.1"), false},
	} {
		_, err := spawner.Spawner{Client: &fake{err: c.err}}.Spawn(t.Context(), coordinate.Start{Target: c.target})
		if _, final := errors.AsType[*outbox.PermanentError](err); err == nil || final != c.final {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
