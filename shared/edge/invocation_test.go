package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// beating returns a heartbeat handler whose beat is fn's.
func beating(s *Sandbox, fn func(*app.Core) Beat) lambda.Handler {
	return s.heartbeat(func(core *app.Core) (Beat, error) {
		return fn(core), nil
	})
}

func answering(r heartbeat.Report, err error) func(*app.Core) Beat {
	return func(*app.Core) Beat {
		return func(context.Context, heartbeat.Tick) (heartbeat.Report, error) { return r, err }
	}
}

// failed returns the failure that Lambda would receive.
func failed(t *testing.T, answer []byte, err error) failure {
	t.Helper()
	var f failure
	if !errors.As(err, &f) || answer != nil {
		t.Fatalf("answered %s, %v", answer, err)
	}
	return f
}

func TestEveryOutcomeIsASuccess(t *testing.T) {
	for _, outcome := range []heartbeat.Outcome{
		heartbeat.Completed, heartbeat.Idle, heartbeat.Parked, heartbeat.Skipped, heartbeat.Duplicate, heartbeat.Lost, heartbeat.Fanned,
	} {
		s, _ := sandbox(t, nowhere)
		raw, err := beating(s, answering(heartbeat.Report{Outcome: outcome}, nil)).Invoke(invocation(t), []byte(`{}`))
		var got heartbeat.Report
		if err != nil || json.Unmarshal(raw, &got) != nil || got.Outcome != outcome {
			t.Errorf("%s: answered %s, %v", outcome, raw, err)
		}
	}
}

func TestErrorsAreToldWithoutInternals(t *testing.T) {
	refused := fmt.Errorf("connect: %w: %w", db.ErrUnavailable, &pgconn.PgError{Code: "28P01", Message: "hunter2"})
	for _, c := range []struct {
		err  error
		kind string
		text string
	}{
		{&db.SchemaError{Have: 3, Need: 6}, "SchemaOutdated", "version 3, this build needs 6"},
		{&db.NewerSchemaError{Have: 9, Build: 6, Oldest: 8}, "SchemaNewer", "version 9, which needs a build of version 8"},
		{fmt.Errorf("beat hunter2: %w: hunter2", db.ErrUnavailable), "DatabaseUnavailable", "request-1"},
		{fmt.Errorf("%w: %w hunter2", db.ErrUnavailable, context.DeadlineExceeded), "DatabaseUnavailable", "can't be reached"},
		{refused, "CredentialsRefused", "refused"},
		{fmt.Errorf("hunter2: %w", context.DeadlineExceeded), "TimedOut", "time"},
		{fmt.Errorf("hunter2: %w", db.ErrUnsafeRole), "UnsafeRole", "row-level security"},
		{&EventError{"slot", "is missing"}, "InvalidEvent", "slot is missing"},
		{&SecretError{Problem: "the secret can't be read (AccessDeniedException)", Err: errors.New("hunter2")}, "SecretUnusable", "AccessDenied"},
		{fmt.Errorf("hunter2: %w", db.ErrUncertain), "Internal", "request-1"},
		{errors.New("hunter2"), "Internal", "request-1"},
	} {
		s, log := sandbox(t, nowhere)
		answer, err := beating(s, answering(heartbeat.Report{}, c.err)).Invoke(invocation(t), []byte(`{}`))
		f := failed(t, answer, err)
		if f.Type != c.kind || !strings.Contains(f.Message, c.text) || strings.Contains(f.Message, "hunter2") || f.ShouldExit {
			t.Errorf("%v is told as %s: %s", c.err, f.Type, f.Message)
		}
		if !strings.Contains(log.String(), `"request_id":"request-1"`) || !strings.Contains(log.String(), `"function":"keeper-heartbeat"`) {
			t.Errorf("the log of %v is %s", c.err, log)
		}
	}
}

func TestPanicEndsTheInvocationOnly(t *testing.T) {
	s, log := sandbox(t, nowhere)
	var calls atomic.Int32
	h := beating(s, func(*app.Core) Beat {
		return func(context.Context, heartbeat.Tick) (heartbeat.Report, error) {
			if calls.Add(1) == 1 {
				panic("the sky fell")
			}
			return heartbeat.Report{Outcome: heartbeat.Idle}, nil
		}
	})
	answer, err := h.Invoke(invocation(t), []byte(`{}`))
	if f := failed(t, answer, err); f.Type != "Panic" || strings.Contains(f.Message, "sky") || f.ShouldExit || len(f.StackTrace) > 0 {
		t.Errorf("told %+v", f)
	}
	if !strings.Contains(log.String(), "the sky fell") || !strings.Contains(log.String(), "invocation_test.go") {
		t.Errorf("the log has no stack: %s", log)
	}
	if answer, err := h.Invoke(invocation(t), []byte(`{}`)); err != nil {
		t.Errorf("the invocation after it: %s, %v", answer, err)
	}
}

// A sandbox starts with an invalid configuration, and each invocation reports the problem.
func TestConfigurationIsReportedByInvocations(t *testing.T) {
	s, _ := sandbox(t, "STATE_BACKEND=sqlite", "LOG_LEVEL=loud")
	h := beating(s, answering(heartbeat.Report{}, nil))
	for range 2 {
		answer, err := h.Invoke(invocation(t), []byte(`{}`))
		f := failed(t, answer, err)
		if f.Type != "InvalidConfiguration" || !strings.Contains(f.Message, "STATE_BACKEND") || !strings.Contains(f.Message, "LOG_LEVEL") {
			t.Errorf("told %s: %s", f.Type, f.Message)
		}
	}
}

// A database that is down is an error of the invocation. The next one tries again with the same
// core.
func TestDatabaseThatIsAway(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	var built atomic.Int32
	h := beating(s, func(core *app.Core) Beat {
		built.Add(1)
		workspaces, err := workspace.New(core.DB)
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, _ heartbeat.Tick) (heartbeat.Report, error) {
			_, err := workspaces.All(ctx)
			return heartbeat.Report{}, err
		}
	})
	for range 2 {
		answer, err := h.Invoke(invocation(t), []byte(`{}`))
		if f := failed(t, answer, err); f.Type != "DatabaseUnavailable" {
			t.Errorf("told %s: %s", f.Type, f.Message)
		}
	}
	if n := built.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestWhatCanNotBeBuiltIsTriedAgain(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	fail := true
	h := s.heartbeat(func(core *app.Core) (Beat, error) {
		if fail {
			return nil, errors.New("no")
		}
		return answering(heartbeat.Report{}, nil)(core), nil
	})
	if answer, err := h.Invoke(invocation(t), []byte(`{}`)); failed(t, answer, err).Type != "Internal" {
		t.Error(err)
	}
	fail = false
	if _, err := h.Invoke(invocation(t), []byte(`{}`)); err != nil {
		t.Error(err)
	}
}

func TestStartElsewhere(t *testing.T) {
	s := NewSandbox(nil, io.Discard, nil)
	if err := s.StartHeartbeat(nil); !errors.Is(err, errNotOnLambda) {
		t.Errorf("got %v", err)
	}
}

func TestSandboxID(t *testing.T) {
	if id := sandboxID("2026/11/20/[$LATEST]58419525dade4d17a495dceeeeb44708"); id != "58419525dade4d17a495dceeeeb44708" {
		t.Errorf("id %q", id)
	}
	a, b := sandboxID(""), sandboxID("")
	if a == b || len(a) != 16 || strings.Contains(a, "/") {
		t.Errorf("ids %q, %q", a, b)
	}
}

// While a sandbox is frozen, the monotonic clock stops. What is kept for seconds, such as the secrets that a guard knows,
// must not outlive a freeze of hours: the clocks show the time of the wall alone.
func TestFreezesCount(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	open := newOpener(s, func(core *app.Core) (time.Time, error) { return core.Clock(), nil })
	now, err := open.current(invocation(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for of, at := range map[string]time.Time{"the sandbox": s.clock(), "the core": now.with} {
		if strings.Contains(at.String(), " m=") {
			t.Errorf("the clock of %s stops in a freeze: %s", of, at)
		}
	}
}
