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

// failure is what Lambda and its caller are told of an error.
type failure = messages.InvokeResponse_Error

// handle makes a handler of fn, whose answer goes out as JSON.
func (s *Sandbox) handle(fn func(ctx context.Context, payload []byte) (any, error)) handler {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		answer, failed := s.guarded(ctx, func() (any, error) { return fn(ctx, payload) })
		if failed != nil {
			return nil, *failed
		}
		return json.Marshal(answer)
	}
}

// guarded runs fn. Its errors and panics are logged whole, and told in the words
// of the table in errors.go; a panic ends the invocation and not the process.
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
