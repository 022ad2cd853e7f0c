package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
)

func TestCommandPassesOnEnvAndExitCode(t *testing.T) {
	for script, want := range map[string]int{
		`test "$TEST_REDIS_URL" = redis://there`: 0,
		`exit 7`:                                 7,
		`kill -9 $$`:                             137,
	} {
		code, err := command(t.Context(), []string{"sh", "-c", script}, []string{"TEST_REDIS_URL=redis://there"}, nil)
		if code != want || err != nil {
			t.Errorf("%s: code %d, %v, want %d", script, code, err, want)
		}
	}
	if code, err := command(t.Context(), []string{"/no/such/command"}, nil, nil); code != 1 || err == nil {
		t.Errorf("no such command: code %d, %v", code, err)
	}
}

func TestCommandForwardsSignals(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code, err := command(t.Context(), []string{"sleep", "600"}, nil, signals)
	if code != 128+int(syscall.SIGTERM) || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
}

func TestRunWithServersThatAreThere(t *testing.T) {
	t.Setenv(servers.EnvPostgres, "postgres://there/db")
	t.Setenv(servers.EnvPgBouncer, "postgres://pooled/db")
	t.Setenv(servers.EnvRedis, "redis://there/0")
	script := `test "$LK_TEST_SERVERS$TEST_DATABASE_URL" = 1postgres://there/db`
	if code, err := run(t.Context(), []string{"--", "sh", "-c", script}); code != 0 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	if code, err := run(t.Context(), nil); code != 2 || err == nil {
		t.Errorf("without a command: code %d, %v", code, err)
	}
}

// TestFilesAreInMemory: those of the tests too, in a directory that they own.
func TestFilesAreInMemory(t *testing.T) {
	files, want := memory(), 0
	if files == "" { // this machine has no such directory with enough room
		want = 9
	}
	for _, name := range []string{servers.EnvPostgres, servers.EnvPgBouncer, servers.EnvRedis} {
		t.Setenv(name, "there")
	}
	for _, name := range []string{servers.EnvFiles, "TMPDIR", "GOTMPDIR"} {
		t.Setenv(name, "")
	}
	script := `case "$TMPDIR" in ` + files + `/*) test -O "$TMPDIR" && test -z "$GOTMPDIR"; exit;; esac; exit 9`
	if code, err := run(t.Context(), []string{"--", "sh", "-c", script}); code != want || err != nil {
		t.Errorf("code %d, %v, want %d", code, err, want)
	}
	if code, err := run(t.Context(), []string{"-durable", "--", "sh", "-c", script}); code != 9 || err != nil {
		t.Errorf("with -durable: code %d, %v", code, err)
	}
}

func TestBoxSaysWhatIsMissing(t *testing.T) {
	got := box([]*servers.MissingError{{Program: "Redis", Variable: "TEST_REDIS_URL", Apt: "redis-server", Brew: "redis", Err: errors.New("no redis-server found")}})
	for _, part := range []string{"NOT ALL TESTS CAN RUN", "#  Redis is missing: no redis-server found", "apt-get install redis-server", "TEST_REDIS_URL"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
}
