package rig_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/infra/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request and answer are those of testdata/echo.
type request struct {
	Op, Text string
	N        int
}

type answer struct {
	Text, ID, ARN, Trace string
	Remaining            time.Duration
	Calls                int
	Env                  []string
}

func (r request) json() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

// start starts the echo function and closes it when the test ends.
func start(t *testing.T, cfg rig.Config) *rig.Function {
	t.Helper()
	var err error
	if cfg.Bootstrap, err = rig.Build(t.Context(), "./testdata/echo", "faults"); err != nil {
		t.Fatal(err)
	}
	f, err := rig.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// begin starts an invocation and returns when it is in progress.
func begin(t *testing.T, f *rig.Function, in request, opts ...rig.Option) *rig.Invocation {
	t.Helper()
	inv, err := f.Begin(t.Context(), in.json(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	<-inv.Started()
	return inv
}

func wait(t *testing.T, inv *rig.Invocation) *rig.Result {
	t.Helper()
	result, err := inv.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func invoke(t *testing.T, f *rig.Function, in request, opts ...rig.Option) *rig.Result {
	t.Helper()
	result, err := f.Invoke(t.Context(), in.json(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// succeed invokes the function and fails the test on an error.
func succeed(t *testing.T, f *rig.Function, in request, opts ...rig.Option) (*rig.Result, answer) {
	t.Helper()
	result := invoke(t, f, in, opts...)
	if result.FunctionError != nil {
		t.Fatalf("%s: %v\n%s", in.Op, result.FunctionError, result.Logs)
	}
	var a answer
	if err := json.Unmarshal(result.Payload, &a); err != nil {
		t.Fatalf("%s: %v in %q", in.Op, err, result.Payload)
	}
	return result, a
}

func wantError(t *testing.T, r *rig.Result, kind, message string) {
	t.Helper()
	if r.FunctionError == nil || r.FunctionError.Type != kind || !strings.Contains(r.FunctionError.Message, message) {
		t.Fatalf("function error is %v, want %s with %q\n%s", r.FunctionError, kind, message, r.Logs)
	}
}

func TestColdThenWarm(t *testing.T) {
	f := start(t, rig.Config{Name: "echo", Timeout: time.Minute})
	result, a := succeed(t, f, request{Op: "echo", Text: "hello"})
	if !result.Cold || result.InitDuration <= 0 || result.Duration <= 0 {
		t.Errorf("first result is %+v, want a cold start with its times", result)
	}
	if a.Text != "hello" || a.ID != result.RequestID || a.Calls != 1 {
		t.Errorf("answer is %+v, want the text, the request id %s, and call 1", a, result.RequestID)
	}
	if a.ARN != "arn:aws:lambda:us-east-1:000000000000:function:echo" || !strings.HasPrefix(a.Trace, "Root=1-") {
		t.Errorf("ARN %q or trace %q is not as on Lambda", a.ARN, a.Trace)
	}
	if a.Remaining <= 0 || a.Remaining > time.Minute {
		t.Errorf("%v remain, want at most the time-out", a.Remaining)
	}
	if !strings.Contains(result.Logs, "started\n") || result.ContentType != "application/json" {
		t.Errorf("logs %q or content type %q of a cold start are wrong", result.Logs, result.ContentType)
	}

	result, a = succeed(t, f, request{Op: "echo"})
	if result.Cold || result.InitDuration != 0 || a.Calls != 2 {
		t.Errorf("second result is %+v of call %d, want call 2 of a warm sandbox", result, a.Calls)
	}
	if result.Logs != "call 2\n" {
		t.Errorf("logs of the second are %q, want its own only", result.Logs)
	}

	f.Retire()
	if result, a = succeed(t, f, request{Op: "echo"}); !result.Cold || a.Calls != 1 {
		t.Errorf("after Retire: cold %v, call %d, want a cold start", result.Cold, a.Calls)
	}
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("RIG_SECRET_OF_THE_TEST", "x")
	f := start(t, rig.Config{Name: "echo", Env: rig.Env(map[string]string{"A": "1", "B": "1"}, map[string]string{
		"B": "2", "AWS_REGION": "eu-central-1", "AWS_LAMBDA_RUNTIME_API": "elsewhere"})})
	_, a := succeed(t, f, request{Op: "echo"})
	got := make(map[string]string)
	for _, entry := range a.Env {
		name, value, _ := strings.Cut(entry, "=")
		got[name] = value
	}
	for name, want := range map[string]string{
		"A": "1", "B": "2", "AWS_REGION": "eu-central-1", "AWS_LAMBDA_FUNCTION_NAME": "echo",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{
		"A", "B", "AWS_REGION", "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_VERSION",
		"AWS_LAMBDA_RUNTIME_API", "_HANDLER", "LAMBDA_TASK_ROOT", "PATH", "HOME", "TMPDIR", "_X_AMZN_TRACE_ID",
	} {
		if got[name] == "" {
			t.Errorf("%s is not set", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("the function sees %v too", got)
	}
}

func TestLogsOfBothOutputs(t *testing.T) {
	f := start(t, rig.Config{})
	result := invoke(t, f, request{Op: "log", Text: "words"})
	if want := "started\ncall 1\nwords on stdout\nwords on stderr\n"; result.Logs != want {
		t.Errorf("logs are %q, want %q", result.Logs, want)
	}
	f.Retire()
	invoke(t, f, request{Op: "log", Text: "more"})
	if all := f.Logs(); !strings.Contains(all, "words on stderr") || !strings.Contains(all, "more on stdout") {
		t.Errorf("logs of the function are %q, want those of both sandboxes", all)
	}
}

func TestErrorKeepsTheSandbox(t *testing.T) {
	f := start(t, rig.Config{})
	result := invoke(t, f, request{Op: "error", Text: "no luck"})
	wantError(t, result, "errorString", "no luck")
	var body rig.FunctionError
	if err := json.Unmarshal(result.Payload, &body); err != nil || body.Message != "no luck" {
		t.Errorf("payload is %s, want the error", result.Payload)
	}
	if result, _ := succeed(t, f, request{Op: "echo"}); result.Cold {
		t.Error("an error ended the sandbox")
	}
}

func TestEndOfTheProcess(t *testing.T) {
	for _, c := range []struct {
		in            request
		kind, message string
	}{
		{request{Op: "panic", Text: "at the disco"}, "string", "at the disco"},
		{request{Op: "exit", N: 7}, "Runtime.ExitError", "exit status 7"},
		{request{Op: "exit"}, "Runtime.ExitError", "without providing a reason"},
		{request{Op: "big", N: 6<<20 + 1}, "Function.ResponseSizeTooLarge", "6291456"},
	} {
		t.Run(fmt.Sprint(c.in.Op, c.in.N), func(t *testing.T) {
			t.Parallel()
			f := start(t, rig.Config{})
			result := invoke(t, f, c.in)
			wantError(t, result, c.kind, c.message)
			if result.Killed || result.TimedOut {
				t.Errorf("killed %v, timed out %v; want neither", result.Killed, result.TimedOut)
			}
			if result, _ := succeed(t, f, request{Op: "echo"}); !result.Cold {
				t.Error("the next invocation was warm")
			}
		})
	}
}

func TestStartThatFails(t *testing.T) {
	for _, c := range []struct{ how, kind, message string }{
		{"error", "Echo.NoStart", "told not to"},
		{"exit", "Runtime.ExitError", "exit status 3"},
		{"hang", "Sandbox.Timedout", "Init timed out"},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			cfg := rig.Config{Env: map[string]string{"ECHO_INIT": c.how}}
			if c.how == "hang" {
				cfg.InitTimeout = 200 * time.Millisecond
			}
			f := start(t, cfg)
			result := invoke(t, f, request{Op: "echo"})
			wantError(t, result, c.kind, c.message)
			if result.TimedOut != (c.how == "hang") || result.Duration != 0 {
				t.Errorf("timed out %v after %v of run time", result.TimedOut, result.Duration)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	f := start(t, rig.Config{})
	const limit = 300 * time.Millisecond
	result := invoke(t, f, request{Op: "hang"}, rig.WithTimeout(limit))
	wantError(t, result, "Sandbox.Timedout", "Task timed out after 0.30 seconds")
	if !result.TimedOut || !result.Killed || result.Duration < limit {
		t.Errorf("result is %+v, want killed after %v", result, limit)
	}
	if result, _ := succeed(t, f, request{Op: "echo"}); !result.Cold {
		t.Error("the next invocation was warm")
	}
}

func TestKill(t *testing.T) {
	f := start(t, rig.Config{})
	inv := begin(t, f, request{Op: "hang"})
	if err := inv.Kill(); err != nil {
		t.Fatal(err)
	}
	result := wait(t, inv)
	wantError(t, result, "Runtime.ExitError", "signal: killed")
	if !result.Killed || result.TimedOut {
		t.Errorf("killed %v, timed out %v; want only the first", result.Killed, result.TimedOut)
	}
	if alive(inv.PID()) {
		t.Error("the process is still there")
	}
	if err := inv.Kill(); !errors.Is(err, rig.ErrFinished) {
		t.Errorf("second Kill: %v, want ErrFinished", err)
	}
	if result, _ := succeed(t, f, request{Op: "echo"}); !result.Cold {
		t.Error("the next invocation was warm")
	}
}

func TestSameRequestIDTwice(t *testing.T) {
	f := start(t, rig.Config{})
	first, _ := succeed(t, f, request{Op: "echo"})
	second, a := succeed(t, f, request{Op: "echo"}, rig.WithRequestID(first.RequestID))
	if second.RequestID != first.RequestID || a.ID != first.RequestID || a.Calls != 2 {
		t.Errorf("second delivery was %s in call %d, want %s in call 2", a.ID, a.Calls, first.RequestID)
	}
}

func TestConcurrentSandboxes(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Freeze })
	f := start(t, rig.Config{Env: d.Env()})
	const n = 4
	var invs []*rig.Invocation
	pids := make(map[int]bool)
	for i := range n {
		inv := begin(t, f, request{Op: "work", Text: fmt.Sprint(i)})
		invs = append(invs, inv)
		pids[inv.PID()] = true
	}
	if len(pids) != n {
		t.Errorf("%d invocations at once ran in %d processes", n, len(pids))
	}
	d.OnPoint(nil)
	for range n {
		d.Thaw(waitFor(t, d, "work.begun"))
	}
	for _, inv := range invs {
		if result := wait(t, inv); result.FunctionError != nil || !result.Cold {
			t.Errorf("result is %+v, want a cold success", result)
		}
	}
	if inv := begin(t, f, request{Op: "work", Text: "next"}); !pids[inv.PID()] {
		t.Error("a warm sandbox was not used again")
	} else {
		wait(t, inv)
	}
}

// TestCallerMayLeave checks that an invocation continues when its caller stops waiting.
func TestCallerMayLeave(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Freeze })
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "work", Text: "a"})
	p := waitFor(t, d, "work.begun")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inv.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait: %v, want the context's error", err)
	}
	d.OnPoint(nil)
	d.Thaw(p)
	if result := wait(t, inv); result.FunctionError != nil {
		t.Error(result.FunctionError)
	}
}

func TestCloseLeavesNoProcess(t *testing.T) {
	w := startWatch(t)
	f := start(t, rig.Config{Env: w.env()})
	inv := begin(t, f, request{Op: "child"})
	<-w.arrived
	f.Close()
	<-w.gone // the child of the function's process
	if alive(inv.PID()) {
		t.Error("the process is still there")
	}
	wantError(t, wait(t, inv), "Runtime.ExitError", "killed")
	if _, err := f.Begin(t.Context(), nil); !errors.Is(err, rig.ErrClosed) {
		t.Errorf("Begin after Close: %v, want ErrClosed", err)
	}
	if _, err := f.InvokeAsync(t.Context(), nil); !errors.Is(err, rig.ErrClosed) {
		t.Errorf("InvokeAsync after Close: %v, want ErrClosed", err)
	}
	f.Close() // may be called again
}

// TestNothingOutlivesItsSandbox checks that the children of a process end with it, even if only the
// process itself is killed.
func TestNothingOutlivesItsSandbox(t *testing.T) {
	w := startWatch(t)
	f := start(t, rig.Config{Env: w.env()})
	inv := begin(t, f, request{Op: "child"})
	<-w.arrived
	if err := syscall.Kill(inv.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.gone
	wantError(t, wait(t, inv), "Runtime.ExitError", "killed")
}

func TestContextClosesTheFunction(t *testing.T) {
	path, err := rig.Build(t.Context(), "./testdata/echo", "faults")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := rig.Start(ctx, rig.Config{Bootstrap: path})
	if err != nil {
		t.Fatal(err)
	}
	inv := begin(t, f, request{Op: "hang"})
	cancel()
	if result := wait(t, inv); !result.Killed {
		t.Errorf("result is %+v, want it killed", result)
	}
	f.Close()
}

func TestStartRefusesWhatIsNoFile(t *testing.T) {
	for _, path := range []string{"", "testdata", "testdata/nothing"} {
		if _, err := rig.Start(t.Context(), rig.Config{Bootstrap: path}); err == nil {
			t.Errorf("a bootstrap %q was accepted", path)
		}
	}
	text := t.TempDir() + "/text"
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := rig.Start(t.Context(), rig.Config{Bootstrap: text})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Invoke(t.Context(), nil); err == nil {
		t.Error("a text was run")
	}
}

// watch is a driver that never responds to a point. It signals when a process arrives at a point,
// and when that process has ended.
type watch struct {
	url           string
	arrived, gone chan struct{}
}

func startWatch(t *testing.T) *watch {
	w := &watch{arrived: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client disconnects
		w.arrived <- struct{}{}
		<-r.Context().Done()
		w.gone <- struct{}{}
	}))
	w.url = srv.URL
	t.Cleanup(srv.Close)
	return w
}

func (w *watch) env() map[string]string { return map[string]string{"LK_FAULT_URL": w.url} }

// alive reports whether a process with this id exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
