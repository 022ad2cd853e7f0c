package rig

import (
	"context"
	"maps"
	"slices"
	"time"
)

// maxAttempts is the total number of attempts that Lambda makes for an asynchronous invocation.
const maxAttempts = 3

// Event is an accepted asynchronous invocation.
type Event struct {
	RequestID string // the same for all attempts

	done    chan struct{}
	results []*Result // written by the goroutine that runs the event; readable when done is closed
}

// DeadLetter is an event whose attempts have all failed.
type DeadLetter struct {
	RequestID string
	Payload   []byte
	Attempts  int
	Error     *FunctionError // of the last attempt
}

// InvokeAsync accepts the payload and runs the function on it until it succeeds, at most three
// times, with the same request id. After the last failure it records a dead letter. If ctx ends, or
// after Close, the event ends without one.
func (f *Function) InvokeAsync(ctx context.Context, payload []byte, opts ...Option) (*Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	payload = slices.Clone(payload)
	id := f.newInvocation(nil, opts).id
	opts = append(slices.Clone(opts), WithRequestID(id))
	e := &Event{RequestID: id, done: make(chan struct{})}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	f.events[e] = struct{}{}
	f.running.Go(func() {
		letter := f.attempt(ctx, e, payload, opts)
		f.mu.Lock()
		defer f.mu.Unlock()
		if letter != nil {
			f.dead = append(f.dead, *letter)
		}
		delete(f.events, e)
		close(e.done)
	})
	return e, nil
}

// attempt runs the event to its end. It returns a dead letter if all attempts failed.
func (f *Function) attempt(ctx context.Context, e *Event, payload []byte, opts []Option) *DeadLetter {
	for {
		result, err := f.Invoke(ctx, payload, opts...)
		if f.isClosed() || ctx.Err() != nil {
			return nil
		}
		if err != nil { // the sandbox could not be started
			result = &Result{RequestID: e.RequestID, FunctionError: &FunctionError{Type: "Sandbox.StartFailed", Message: err.Error()}}
		}
		e.results = append(e.results, result)
		if result.FunctionError == nil {
			return nil
		}
		if n := len(e.results); n == maxAttempts {
			return &DeadLetter{RequestID: e.RequestID, Payload: payload, Attempts: n, Error: result.FunctionError}
		}
		delay := time.NewTimer(f.cfg.RetryDelay)
		select {
		case <-delay.C:
		case <-f.quit:
			delay.Stop()
			return nil
		case <-ctx.Done():
			delay.Stop()
			return nil
		}
	}
}

// Wait waits until the event has ended and returns the results of all attempts.
func (e *Event) Wait(ctx context.Context) ([]*Result, error) {
	select {
	case <-e.done:
		return e.results, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Drain waits until no asynchronous event is in progress, including those that are accepted while
// it waits.
func (f *Function) Drain(ctx context.Context) error {
	for {
		f.mu.Lock()
		pending := slices.Collect(maps.Keys(f.events))
		f.mu.Unlock()
		if len(pending) == 0 {
			return nil
		}
		for _, e := range pending {
			if _, err := e.Wait(ctx); err != nil {
				return err
			}
		}
	}
}

// DeadLetters returns the events whose attempts have all failed, in the order of their end.
func (f *Function) DeadLetters() []DeadLetter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dead)
}
