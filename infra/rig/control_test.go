package rig_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig"
)

// stopped reports whether a process is stopped by a signal.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("whether a process is stopped is read from /proc")
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "T")
}

func TestFreezeAndThaw(t *testing.T) {
	d := startFaults(t, func(p rig.Point) rig.Action { return rig.Continue })
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "stream", N: 1 << 30})
	lines := bufio.NewScanner(inv.Body())
	for range 3 {
		lines.Scan()
	}
	if err := inv.Freeze(); err != nil {
		t.Fatal(err)
	}
	if !stopped(t, inv.PID()) {
		t.Fatal("the process runs after Freeze")
	}
	before := len(d.Points())
	inv.Thaw()
	for len(d.Points()) <= before+1 { // one more may have been in progress
		if _, err := d.WaitFor(t.Context(), "line"); err != nil {
			t.Fatal(err)
		}
	}
	if err := inv.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := inv.Kill(); err != nil {
		t.Fatal(err)
	}
	if result := wait(t, inv); !result.Killed || !result.Cold {
		t.Errorf("result is %+v, want it killed", result)
	}
	if err := inv.Freeze(); !errors.Is(err, rig.ErrFinished) {
		t.Errorf("Freeze after the end: %v, want ErrFinished", err)
	}
	inv.Thaw() // does nothing
}

// TestTimeRunsWhileFrozen checks that the deadline also applies to a frozen process.
func TestTimeRunsWhileFrozen(t *testing.T) {
	f := start(t, rig.Config{})
	inv := begin(t, f, request{Op: "hang"}, rig.WithTimeout(300*time.Millisecond))
	if err := inv.Freeze(); err != nil && !errors.Is(err, rig.ErrFinished) {
		t.Fatal(err)
	}
	if result := wait(t, inv); !result.TimedOut {
		t.Errorf("result is %+v, want it timed out", result)
	}
}

func TestFreezeBetween(t *testing.T) {
	f := start(t, rig.Config{FreezeBetween: true})
	var pid int
	for i := range 5 {
		inv := begin(t, f, request{Op: "echo"})
		if result := wait(t, inv); result.FunctionError != nil || result.Cold != (i == 0) {
			t.Fatalf("invocation %d: %+v", i, result)
		}
		if pid != 0 && inv.PID() != pid {
			t.Fatalf("invocation %d ran in process %d, want %d", i, inv.PID(), pid)
		}
		pid = inv.PID()
		if !stopped(t, pid) {
			t.Fatalf("the process runs after invocation %d", i)
		}
	}
	f.Retire()
	if alive(pid) {
		t.Error("Retire left a frozen process")
	}
}

// TestControlAtAnyMoment kills and freezes invocations while they start, run and end. At every
// moment the result is correct, and no process stays frozen.
func TestControlAtAnyMoment(t *testing.T) {
	for _, between := range []bool{false, true} {
		t.Run(fmt.Sprintf("FreezeBetween=%v", between), func(t *testing.T) {
			d := startFaults(t, nil)
			f := start(t, rig.Config{Env: d.Env(), FreezeBetween: between})
			var all sync.WaitGroup
			for g := range 4 {
				all.Go(func() {
					for i := range 30 {
						controlOne(t, f, d.Ledger(), fmt.Sprint(g, "/", i), i%3)
					}
				})
			}
			all.Wait()
		})
	}
}

func controlOne(t *testing.T, f *rig.Function, l *rig.Ledger, key string, how int) {
	inv, err := f.Begin(t.Context(), request{Op: "work", Text: key}.json())
	if err != nil {
		t.Error(err)
		return
	}
	if how != 0 {
		<-inv.Started() // otherwise it is killed or frozen before its first instruction
	}
	var killed bool
	switch how {
	case 0, 1:
		killed = inv.Kill() == nil
	case 2:
		for pause := time.Duration(0); inv.Freeze() == nil; pause += time.Millisecond { // until it has ended
			inv.Thaw()
			time.Sleep(pause) // otherwise it is stopped again before it gets the processor
		}
	}
	result, err := inv.Wait(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	if result.Killed != killed || (result.FunctionError != nil) != killed {
		t.Errorf("%s: killed %v, but the result is %+v", key, killed, result)
	}
	if n := l.Count(key); n > 1 || n == 0 && !killed {
		t.Errorf("%s: killed %v, but it had %d effects", key, killed, n)
	}
}

func TestStreamArrivesAsItIsWritten(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Freeze })
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "stream", N: 3})
	body := bufio.NewReader(inv.Body())
	d.Thaw(waitFor(t, d, "line"))
	// The function cannot have written the second line yet.
	if line, err := body.ReadString('\n'); err != nil || !strings.HasSuffix(line, "0\n") {
		t.Fatalf("first line is %q, %v", line, err)
	}
	for range 2 {
		d.Thaw(waitFor(t, d, "line"))
	}
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "1\n2\n" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
	result := wait(t, inv)
	if result.FunctionError != nil || !result.Streamed || result.ContentType != "application/vnd.awslambda.http-integration-response" {
		t.Errorf("result is %+v, want a streamed success", result)
	}
	prelude, text, _ := bytes.Cut(result.Payload, make([]byte, 8))
	if !bytes.Contains(prelude, []byte(`"statusCode":200`)) || string(text) != "0\n1\n2\n" {
		t.Errorf("payload is %q with the prelude %q", text, prelude)
	}
}

func TestStreamThatFails(t *testing.T) {
	f := start(t, rig.Config{})
	result := invoke(t, f, request{Op: "stream", N: 2, Text: "ran dry"})
	wantError(t, result, "errorString", "ran dry")
	if !bytes.HasSuffix(result.Payload, []byte("0\n1\n")) {
		t.Errorf("payload is %q, want what came before", result.Payload)
	}
	if result, _ := succeed(t, f, request{Op: "echo"}); result.Cold {
		t.Error("the error ended the sandbox")
	}
}

func TestKillInTheMiddleOfAStream(t *testing.T) {
	d := startFaults(t, func(p rig.Point) rig.Action {
		if p.Key == "2" {
			return rig.Kill
		}
		return rig.Continue
	})
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "stream", N: 5})
	body, err := io.ReadAll(inv.Body())
	if err != nil {
		t.Fatal(err)
	}
	if result := wait(t, inv); !result.Killed || !bytes.Equal(result.Payload, body) {
		t.Errorf("result is %+v, want it killed", result)
	}
}

func TestAsyncRetriesThenDeadLetter(t *testing.T) {
	for _, in := range []request{{Op: "error", Text: "no"}, {Op: "panic", Text: "no"}, {Op: "exit", N: 1}, {Op: "hang"}} {
		t.Run(in.Op, func(t *testing.T) {
			t.Parallel()
			f := start(t, rig.Config{RetryDelay: time.Nanosecond})
			limit := time.Minute
			if in.Op == "hang" {
				limit = 200 * time.Millisecond
			}
			e, err := f.InvokeAsync(t.Context(), in.json(), rig.WithTimeout(limit))
			if err != nil {
				t.Fatal(err)
			}
			results, err := e.Wait(t.Context())
			if err != nil || len(results) != 3 {
				t.Fatalf("%d attempts, %v; want 3", len(results), err)
			}
			for i, r := range results {
				if r.FunctionError == nil || r.RequestID != e.RequestID || r.TimedOut != (in.Op == "hang") {
					t.Errorf("attempt %d: %+v", i+1, r)
				}
			}
			dead := f.DeadLetters()
			if len(dead) != 1 || dead[0].RequestID != e.RequestID || dead[0].Attempts != 3 ||
				!bytes.Equal(dead[0].Payload, in.json()) || dead[0].Error == nil {
				t.Errorf("dead letters are %+v, want the event", dead)
			}
		})
	}
}

func TestAsyncStopsAtSuccess(t *testing.T) {
	first := true
	d := startFaults(t, func(p rig.Point) rig.Action {
		if first {
			first = false
			return rig.Kill
		}
		return rig.Continue
	})
	f := start(t, rig.Config{Env: d.Env()})
	e, err := f.InvokeAsync(t.Context(), request{Op: "work", Text: "a"}.json())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := e.Wait(t.Context())
	if err != nil || len(results) != 2 || !results[0].Killed || results[1].FunctionError != nil {
		t.Errorf("attempts are %+v, %v; want one killed and one success", results, err)
	}
	if dead := f.DeadLetters(); len(dead) != 0 {
		t.Errorf("dead letters are %+v, want none", dead)
	}
}

func TestCloseEndsAsyncWithoutDeadLetter(t *testing.T) {
	d := startFaults(t, nil)
	f := start(t, rig.Config{Env: d.Env(), RetryDelay: time.Hour})
	e, err := f.InvokeAsync(t.Context(), request{Op: "error", Text: "no"}.json())
	if err != nil {
		t.Fatal(err)
	}
	running := begin(t, f, request{Op: "hang"})
	f.Close()
	if results, err := e.Wait(t.Context()); err != nil || len(results) > 1 {
		t.Errorf("%d attempts, %v; want at most one", len(results), err)
	}
	if dead := f.DeadLetters(); len(dead) != 0 {
		t.Errorf("dead letters are %+v, want none", dead)
	}
	wait(t, running)
}

// TestDeathOfTheTest checks that processes die with a test that could not close its functions. The
// test starts itself as that other test.
func TestDeathOfTheTest(t *testing.T) {
	if url := os.Getenv("RIG_TEST_WATCH"); url != "" {
		f, err := rig.Start(t.Context(), rig.Config{Bootstrap: os.Getenv("RIG_TEST_BOOTSTRAP"), Env: map[string]string{"LK_FAULT_URL": url}})
		if err != nil {
			t.Fatal(err)
		}
		invoke(t, f, request{Op: "work", Text: "a"})
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	path, err := rig.Build(t.Context(), "./testdata/echo", "faults")
	if err != nil {
		t.Fatal(err)
	}
	w := startWatch(t)
	other := exec.Command(os.Args[0], "-test.run=^TestDeathOfTheTest$")
	// The files that it leaves in its temporary directory are deleted with this test's.
	other.Env = append(os.Environ(), "RIG_TEST_WATCH="+w.url, "RIG_TEST_BOOTSTRAP="+path, "TMPDIR="+t.TempDir())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	<-w.arrived
	if err := other.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = other.Wait() // it was killed
	<-w.gone
}
