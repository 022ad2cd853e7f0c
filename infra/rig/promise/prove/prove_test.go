package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
)

// told returns the output line of a test that reports a proof.
func told(t *testing.T, test string, p promise.Proof) string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(event{"output", test, "    promise.go:44: " + promise.Mark + string(raw) + "\n"})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func TestTable(t *testing.T) {
	kept := promise.Proof{Promise: "R14", What: "kills", Goal: "0 stuck", Measured: "0 of 300 stuck, p99 > 2 s", Kept: true}
	lost := promise.Proof{Promise: "R7", What: "ticks", Goal: "once", Measured: "twice"}
	out := strings.Join([]string{
		`{"Action":"output","Test":"TestA","Output":"silent\n"}`, `{"Action":"pass","Test":"TestA"}`,
		`{"Action":"output","Test":"TestB","Output":"it went wrong\n"}`, told(t, "TestB", lost) + `{"Action":"fail","Test":"TestB"}`,
		"not JSON", told(t, "TestC", kept),
	}, "\n")
	var log, table bytes.Buffer
	all, err := collect(strings.NewReader(out), &log)
	if err != nil || len(all) != 2 || all[0] != lost || all[1] != kept {
		t.Fatalf("%v, %v", all, err)
	}
	if said := log.String(); !strings.Contains(said, "it went wrong") || !strings.Contains(said, "not JSON") || strings.Contains(said, "silent") {
		t.Errorf("the log is %s", said)
	}
	if err := print(&table, all); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(table.String()), "\n")
	if len(rows) != 3 || !strings.HasPrefix(rows[1], "R7 ") || !strings.HasSuffix(rows[1], "twice                      BROKEN") ||
		!strings.HasPrefix(rows[2], "R14 ") || !strings.Contains(rows[2], "p99 > 2 s") || !strings.HasSuffix(rows[2], "kept") {
		t.Errorf("the table is %s", table.String())
	}
	if broken(all) == nil || broken(all[1:]) != nil && all[1].Kept {
		t.Error("a broken promise is no error")
	}
}

// A run that reports no proof of one of its promises, or that fails nevertheless, is no proof.
func TestWhatIsUnsaid(t *testing.T) {
	r := run{[]string{"R1", "R2"}, "./x", "^TestX$"}
	kept := promise.Proof{Promise: "R1", Kept: true}
	if got := r.unsaid([]promise.Proof{kept}, false); len(got) != 1 || got[0].Promise != "R2" || got[0].Kept {
		t.Errorf("unsaid: %+v", got)
	}
	both := []promise.Proof{kept, {Promise: "R2", Kept: true}}
	if got := r.unsaid(both, false); len(got) != 0 {
		t.Errorf("all was said: %+v", got)
	}
	if got := r.unsaid(both, true); len(got) != 1 || got[0].Kept {
		t.Errorf("a test failed: %+v", got)
	}
}

// The end of the command also ends its child processes.
func TestACommandIsKilledWithItsGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(ctx, "sh", "-c", "sleep 600 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started := bufio.NewReader(out)
	if _, err := started.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	// Its end closes the pipe, which its child also holds.
	if rest, err := io.ReadAll(started); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it has ended by itself")
	}
}
