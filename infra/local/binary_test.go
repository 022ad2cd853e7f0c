//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/app/seed"
)

// TestTheRealBinary builds the command and stops it by signals.
func TestTheRealBinary(t *testing.T) {
	binary := built(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, d := start(t, binary)
			url, token, _ := d.started()
			status, body := call(t, "GET", url+"/api/v1/lanes", token, "")
			for _, l := range decode[struct{ Items []struct{ Lane string } }](t, body).Items {
				// These are held while the demo is made, and while the worker takes a task of it.
				if status != 200 || l.Lane != string(seed.Lane) && !strings.HasPrefix(l.Lane, "task:") {
					t.Errorf("lanes: %d %s", status, body)
				}
			}
			kill(t, cmd, signal)
			if err := cmd.Wait(); err != nil {
				t.Errorf("after the signal: %v\n%s", err, d)
			}
			says(t, d.out.String(), "stopping", "stopped")
			if d.errs.String() != "" {
				t.Errorf("on stderr:\n%s", d.errs)
			}
		})
	}
	t.Run("nobody reads", func(t *testing.T) {
		home := newHome(t).environ
		verb := func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), binary, args...)
			cmd.Env = append(cmd.Environ(), home...)
			return cmd
		}
		if out, err := verb("migrate").CombinedOutput(); err != nil {
			t.Fatalf("migrate: %v\n%s", err, out)
		}
		ask := verb("ask", "Please remember that the shop is red")
		out, err := ask.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := ask.Start(); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		if err := ask.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if held, err := verb("locks", "--json").Output(); err != nil || strings.Contains(string(held), `"operate"`) {
			t.Errorf("lanes: %v\n%s", err, held)
		}
	})
	t.Run("twice", func(t *testing.T) {
		cmd, d := start(t, binary)
		url, token, _ := d.started()
		// A request whose body does not arrive keeps the process from ending at once.
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /api/v1/heartbeat/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", token)
		if _, err := conn.Read(make([]byte, 10)); err != nil { // the server waits for the body now
			t.Fatal(err)
		}
		kill(t, cmd, syscall.SIGTERM)
		d.out.wait(t, "stopping")
		kill(t, cmd, syscall.SIGTERM)
		err = cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Errorf("after the second signal: %v\n%s", err, d)
		}
	})
}

// start starts `dev` of the binary in a new home.
func start(t *testing.T, binary string) (*exec.Cmd, *running) {
	t.Helper()
	return startIn(t, binary, newHome(t))
}

// startIn starts `dev` of the binary in a home.
func startIn(t *testing.T, binary string, h home) (*exec.Cmd, *running) {
	t.Helper()
	d := &running{t: t, out: newWatched(), errs: newWatched()}
	cmd := exec.CommandContext(t.Context(), binary, "dev")
	cmd.Env = append(cmd.Environ(), h.environ...)
	cmd.Stdout, cmd.Stderr = d.out, d.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, d
}

func kill(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// built builds the command for the test and returns its path. It skips the test in a short run.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command")
	}
	path, err := rig.Build(t.Context(), "github.com/lanekeeper/lanekeeper/infra/local")
	binary := filepath.Join(t.TempDir(), "lanekeeper")
	if err := errors.Join(err, os.Symlink(path, binary)); err != nil {
		t.Fatal(err)
	}
	return binary
}
