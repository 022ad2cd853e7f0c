package resilient_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// fake is a provider that plays steps, one per call. It repeats the last step.
type fake struct {
	name string

	mu    sync.Mutex
	steps []step
	asked []llm.Request
}

type step func(ctx context.Context, onDelta func(llm.Delta)) (llm.Response, error)

func provider(name string, steps ...step) *fake { return &fake{name: name, steps: steps} }

func (f *fake) Name() string { return f.name }

func (f *fake) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, f.name); err != nil {
		return llm.Response{}, err
	}
	f.mu.Lock()
	next := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	f.asked = append(f.asked, req)
	f.mu.Unlock()
	resp, err := next(ctx, onDelta)
	if ended := llm.Interrupted(ctx, f.name); ended != nil {
		return llm.Response{}, ended
	}
	if e, ok := err.(*llm.Error); ok { //nolint:errorlint // ours
		e.Provider = f.name
	}
	return resp, err
}

// does replaces the steps.
func (f *fake) does(steps ...step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
}

// times returns how often it was asked, and resets the count.
func (f *fake) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.asked)
	f.asked = nil
	return n
}

// models returns the ids that were requested.
func (f *fake) models() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.asked {
		ids = append(ids, r.Model)
	}
	return ids
}

func say(text string) step {
	return func(_ context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
		if onDelta != nil {
			onDelta(llm.Delta{Text: text})
		}
		return llm.Response{
			Message: llm.Message{Role: llm.RoleAssistant, Text: text}, StopReason: llm.StopEndTurn,
			Usage: llm.Usage{PromptTokens: 3, CompletionTokens: 2}, Model: "model-of-" + text,
		}, nil
	}
}

func fail(class llm.ErrorClass, after ...time.Duration) step {
	return func(context.Context, func(llm.Delta)) (llm.Response, error) {
		e := &llm.Error{Class: class, Err: errCause}
		for _, d := range after {
			e.RetryAfter = d
		}
		return llm.Response{}, e
	}
}

// hang returns nothing until its context ends.
func hang(ctx context.Context, _ func(llm.Delta)) (llm.Response, error) {
	<-ctx.Done()
	return llm.Response{}, nil
}

// breakOff streams a piece and fails.
func breakOff(class llm.ErrorClass) step {
	return func(ctx context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
		if onDelta != nil {
			onDelta(llm.Delta{Text: "half"})
		}
		return fail(class)(ctx, onDelta)
	}
}

// world is a chain under test with its reports.
type world struct {
	*resilient.Chain
	mu    sync.Mutex
	calls []resilient.Call
}

// chain returns a chain of the providers. change adapts its configuration.
func chain(t testing.TB, change func(*resilient.Config), providers ...resilient.Provider) *world {
	t.Helper()
	w := &world{}
	cfg := resilient.Config{
		Providers: providers, Log: slog.New(slog.DiscardHandler), Clock: time.Now, Rand: func() float64 { return 0 },
		Observe: func(_ context.Context, c resilient.Call) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := resilient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Chain = c
	return w
}

// observed returns the calls that were reported since its last call.
func (w *world) observed() []resilient.Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func onEach(t *testing.T, fn func(t *testing.T, e dbtest.Env)) {
	t.Helper()
	dbtest.Each(t, fn)
}
