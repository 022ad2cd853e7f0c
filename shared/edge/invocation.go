package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda/messages"
)

// A handler serves one invocation. It implements lambda.Handler.
type handler func(ctx context.Context, payload []byte) ([]byte, error)

// Invoke implements lambda.Handler.
func (h handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return h(ctx, payload) }

// failure is the form in which Lambda and its caller receive an error.
type failure = messages.InvokeResponse_Error

// handle returns a handler that runs fn and encodes its result as JSON.
func (s *Sandbox) handle(fn func(ctx context.Context, payload []byte) (any, error)) handler {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		ctx = s.invoked(ctx)
		defer s.measured(ctx)
		answer, failed := s.guarded(ctx, func() (any, error) { return fn(ctx, payload) })
		if failed != nil {
			return nil, *failed
		}
		return json.Marshal(answer)
	}
}

// guarded runs fn. It logs errors and panics in full and returns them as failureOf words them. A panic
// ends the invocation, not the process.
func (s *Sandbox) guarded(ctx context.Context, fn func() (any, error)) (answer any, failed *failure) {
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "invocation panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer, failed = nil, &failure{Type: "Panic", Message: internal(ctx)}
		}
	}()
	answer, err := fn()
	if err != nil {
		s.log.ErrorContext(ctx, "invocation failed", "error", err)
		return nil, failureOf(ctx, err)
	}
	return answer, nil
}
