package servers

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv makes the test binary run as a process that starts servers and then waits to be killed.
const helperEnv = "LK_SERVERS_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		if err := holdServers(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// unset makes the package start all servers itself, even when the tests run inside a running set.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{EnvPostgres, EnvPgBouncer, EnvRedis, EnvFiles} {
		t.Setenv(name, "")
	}
}

// need ends the test on an error. On a laptop it skips the test when a program is missing.
func need(t *testing.T, err error) {
	t.Helper()
	if missing := (*MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// closing closes a server or a set at the end of the test.
func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
