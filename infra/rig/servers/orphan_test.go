package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// holdServers starts all servers, prints their directories, and waits until it is killed.
func holdServers() error {
	set, err := Start(context.Background(), Options{Postgres: PostgresOptions{Fast: true}})
	if err != nil {
		return err
	}
	fmt.Println(set.Postgres.Dir, set.PgBouncer.Dir, set.Redis.Dir)
	_, _ = io.Copy(io.Discard, os.Stdin) // ends together with the test, if the test fails to kill it
	return set.Close()
}

func TestServersDieWithAKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux offers it")
	}
	unset(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_, lookup := Start(t.Context(), Options{})
		need(t, lookup)
		t.Fatal(err)
	}
	dirs := strings.Fields(line)
	for _, dir := range dirs {
		defer func() { _ = os.RemoveAll(dir) }()
		if len(processesIn(t, dir)) == 0 {
			t.Fatalf("no process in %s", dir)
		}
	}

	_ = cmd.Process.Kill()
	_ = cmd.Wait() // "killed"

	deadline := time.After(stopLimit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for _, dir := range dirs {
		for left := processesIn(t, dir); len(left) > 0; left = processesIn(t, dir) {
			select {
			case <-deadline:
				t.Fatalf("still alive in %s: %v", dir, left)
			case <-tick.C:
			}
		}
	}
}

// processesIn lists the processes whose working directory is dir or below, even when dir was
// removed. It returns nothing where there is no /proc.
func processesIn(t *testing.T, dir string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		at, err := os.Readlink(link)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			continue // ended meanwhile, or of another user
		}
		if err == nil && strings.HasPrefix(at, dir) {
			name, _ := os.ReadFile(filepath.Dir(link) + "/comm") // empty once it ended
			found = append(found, filepath.Base(filepath.Dir(link))+" "+strings.TrimSpace(string(name)))
		}
	}
	return found
}
