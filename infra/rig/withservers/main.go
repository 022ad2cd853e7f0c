// Command withservers starts private PostgreSQL, PgBouncer and Redis servers and runs a command,
// such as the tests, with them:
//
//	go run ./infra/rig/withservers -- go test ./...
//
// The command receives their addresses in TEST_DATABASE_URL, TEST_PGBOUNCER_URL and TEST_REDIS_URL,
// together with LK_TEST_SERVERS=1. withservers exits with the command's exit code.
//
// On Linux the servers and the command keep their files in memory, if there is room. SQLite forces each
// commit to the disk, for which the tests would wait for minutes.
//
// A server that can be neither found nor installed is an error if CI is set. Otherwise a box on
// stderr names what is missing, and the variable stays unset.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
)

// maxConnections is more than the packages need that go test runs at a time.
const maxConnections = 400

func main() {
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
	}
	os.Exit(code)
}

// run returns the command's exit code, or 1 and an error if the command has none.
func run(ctx context.Context, args []string) (code int, err error) {
	flags := flag.NewFlagSet("withservers", flag.ContinueOnError)
	durable := flags.Bool("durable", false, "keep files on the disk and fsync on, so that data would survive a crash of the machine")
	if err := flags.Parse(args); err != nil {
		return 2, nil // flag has printed the reason
	}
	if flags.NArg() == 0 {
		return 2, errors.New("usage: withservers [-durable] -- command [argument ...]")
	}

	files := memory()
	if *durable || os.Getenv("TMPDIR") != "" {
		files = ""
	}
	if files != "" {
		if err := os.Setenv("TMPDIR", files); err != nil {
			return 1, err
		}
	}

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	starting, started := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	set, err := servers.Start(starting, servers.Options{
		Postgres:     servers.PostgresOptions{Fast: !*durable, MaxConnections: maxConnections},
		AllowMissing: os.Getenv("CI") == "",
	})
	started()
	if err != nil {
		return 1, err
	}
	defer func() {
		if closing := set.Close(); closing != nil && err == nil {
			code, err = max(code, 1), closing
		}
	}()
	if len(set.Missing) > 0 {
		fmt.Fprint(os.Stderr, box(set.Missing))
	}
	env := append(set.Env(), "LK_TEST_SERVERS=1")
	if files != "" {
		env = append(env, "TMPDIR="+set.Files) // which set.Close removes
	}
	return command(ctx, flags.Args(), env, signals)
}

// command runs a command to its end and passes on the signals that this process receives.
func command(ctx context.Context, argv, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = cmd.Process.Signal(sig) // fails only when it has ended
		case err := <-done:
			return exitCode(err)
		}
	}
}

// exitCode returns the exit code that a shell would report for the end of a command.
func exitCode(err error) (int, error) {
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		if err != nil {
			return 1, err
		}
		return 0, nil
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// box frames the list of missing servers, so that nobody overlooks it.
func box(missing []*servers.MissingError) string {
	var b strings.Builder
	line := strings.Repeat("#", 78)
	fmt.Fprintln(&b, line)
	fmt.Fprintln(&b, "#  NOT ALL TESTS CAN RUN: what needs the following is not proven by this run.")
	for _, m := range missing {
		fmt.Fprintln(&b, "#")
		for text := range strings.Lines(m.Error()) {
			fmt.Fprintln(&b, "#  "+strings.TrimRight(text, "\n"))
		}
	}
	fmt.Fprintln(&b, line)
	return b.String()
}
