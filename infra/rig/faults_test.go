package rig_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig"
)

// startFaults starts a driver and closes it when the test ends.
func startFaults(t *testing.T, onPoint func(rig.Point) rig.Action) *rig.Faults {
	t.Helper()
	d, err := rig.StartFaults(onPoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func waitFor(t *testing.T, d *rig.Faults, name string) rig.Point {
	t.Helper()
	p, err := d.WaitFor(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestKillAtEveryPoint shows the intended use: learn the points from a run without faults, then
// kill the process once at each.
func TestKillAtEveryPoint(t *testing.T) {
	d := startFaults(t, nil)
	f := start(t, rig.Config{Env: d.Env()})
	invoke(t, f, request{Op: "work", Text: "learn"})
	var names []string
	for _, p := range d.Points() {
		names = append(names, p.Name)
	}
	if want := []string{"work.begun", "work.done"}; !slices.Equal(names, want) {
		t.Fatalf("points are %v, want %v", names, want)
	}

	// This work is not guarded. If it is repeated after a kill that came after its effect, it has
	// the effect twice, and the ledger must show that.
	for _, name := range names {
		killed := false
		d.OnPoint(func(p rig.Point) rig.Action {
			if p.Name == name && !killed {
				killed = true
				return rig.Kill
			}
			return rig.Continue
		})
		in := request{Op: "work", Text: "killed at " + name}
		if result := invoke(t, f, in); !result.Killed {
			t.Errorf("%s: result is %+v, want it killed", name, result)
		}
		if result := invoke(t, f, in); result.FunctionError != nil || !result.Cold {
			t.Errorf("%s: second result is %+v, want a cold success", name, result)
		}
	}
	l := d.Ledger()
	for key, want := range map[string]int{"learn": 1, "killed at work.begun": 1, "killed at work.done": 2, "other": 0} {
		if got := l.Count(key); got != want {
			t.Errorf("%q had %d effects, want %d", key, got, want)
		}
	}
	if got, want := l.Duplicates(), map[string]int{"killed at work.done": 2}; !maps.Equal(got, want) {
		t.Errorf("duplicates are %v, want %v", got, want)
	}
	if all := l.All(); len(all) != 4 || all[0].Name != "work" || all[0].Key != "learn" || all[0].PID == 0 {
		t.Errorf("effects are %+v", all)
	}
}

func TestFreezeAtAPoint(t *testing.T) {
	d := startFaults(t, func(p rig.Point) rig.Action {
		if p.Name == "work.begun" {
			return rig.Freeze
		}
		return rig.Continue
	})
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "work", Text: "a"})
	p := waitFor(t, d, "work.begun")
	if p.PID != inv.PID() || p.Key != "a" {
		t.Errorf("point is %+v, want that of process %d", p, inv.PID())
	}
	if !stopped(t, p.PID) {
		t.Error("the process runs at the point")
	}
	if n := d.Ledger().Count("a"); n != 0 {
		t.Errorf("%d effects while frozen", n)
	}
	d.Thaw(p)
	d.Thaw(p) // does nothing
	if result := wait(t, inv); result.FunctionError != nil {
		t.Error(result.FunctionError)
	}
	if n := d.Ledger().Count("a"); n != 1 {
		t.Errorf("%d effects in the end, want 1", n)
	}
}

func TestKillWhileFrozenAtAPoint(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Freeze })
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "work", Text: "a"})
	p := waitFor(t, d, "work.begun")
	if err := inv.Kill(); err != nil {
		t.Fatal(err)
	}
	if result := wait(t, inv); !result.Killed {
		t.Errorf("result is %+v, want it killed", result)
	}
	d.Thaw(p)
	if n := d.Ledger().Count("a"); n != 0 {
		t.Errorf("%d effects, want none", n)
	}
}

func TestCloseThaws(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Freeze })
	f := start(t, rig.Config{Env: d.Env()})
	inv := begin(t, f, request{Op: "work", Text: "a"})
	waitFor(t, d, "work.begun")
	d.Close()
	result := wait(t, inv)
	if result.FunctionError != nil {
		t.Error(result.FunctionError)
	}
	if !strings.Contains(result.Logs, "effect work of a is not recorded") {
		t.Errorf("logs are %q, want a word about the lost effect", result.Logs)
	}
}

func TestFailAtAPoint(t *testing.T) {
	d := startFaults(t, func(rig.Point) rig.Action { return rig.Fail })
	f := start(t, rig.Config{Env: d.Env()})
	wantError(t, invoke(t, f, request{Op: "work", Text: "a"}), "errorString", "work.begun: told to fail")
	if result, _ := succeed(t, f, request{Op: "echo"}); result.Cold {
		t.Error("the failure ended the sandbox")
	}
}

// TestOwnProcess checks that points in the test's own process can be frozen, but do not kill it.
func TestOwnProcess(t *testing.T) {
	d := startFaults(t, func(p rig.Point) rig.Action {
		if p.Name == "kill" {
			return rig.Kill
		}
		return rig.Freeze
	})
	hit := func(name string, pid int) int {
		body := strings.NewReader(fmt.Sprintf(`{"point":%q,"key":"k","pid":%d}`, name, pid))
		resp, err := http.Post(d.Env()["LK_FAULT_URL"]+"/point", "application/json", body)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	for _, pid := range []int{os.Getpid(), 1, 0, -1} {
		if status := hit("kill", pid); status != http.StatusServiceUnavailable {
			t.Errorf("kill of %d answered %d, want a failure", pid, status)
		}
	}
	status := make(chan int)
	go func() { status <- hit("freeze", os.Getpid()) }()
	d.Thaw(waitFor(t, d, "freeze"))
	if got := <-status; got != http.StatusOK {
		t.Errorf("freeze answered %d, want success", got)
	}
}

func TestWaitForGivesUp(t *testing.T) {
	d := startFaults(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.WaitFor(ctx, "never"); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitFor: %v, want the context's error", err)
	}
	if _, err := d.Ledger().WaitFor(ctx, "never"); !errors.Is(err, context.Canceled) {
		t.Errorf("Ledger.WaitFor: %v, want the context's error", err)
	}
	d.Ledger().Record("mail", "m1")
	if e, err := d.Ledger().WaitFor(t.Context(), "m1"); err != nil || e.Name != "mail" {
		t.Errorf("effect is %+v, %v", e, err)
	}
}
