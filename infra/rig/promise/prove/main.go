// Command prove proves the product's promises at their full figures and prints a table: promise,
// what was tried, goal, measured.
//
//	make chaos
//	bin/withservers -- go run ./infra/rig/promise/prove -only R34
//
// It fails if a promise is broken, or if a test reports none of the promises that it must prove.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := prove(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func prove(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	only := flags.String("only", "", "prove only the promises that match this `expression`, such as R3[456]")
	timeout := flags.Duration("timeout", 2*time.Hour, "of one run of go test")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile("^(?:" + *only + ")$")
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	var all []promise.Proof
	var failed error
	for _, r := range runs {
		if ctx.Err() != nil {
			break
		}
		if *only != "" && !slices.ContainsFunc(r.promises, wanted.MatchString) {
			continue
		}
		begun := time.Now()
		fmt.Printf("%s  %s -run '%s'\n", strings.Join(r.promises, " "), r.pkg, r.tests)
		proofs, err := r.prove(ctx, *timeout)
		all = append(all, proofs...)
		if err != nil {
			failed = fmt.Errorf("%s: %w", r.pkg, err)
			break
		}
		fmt.Printf("    %s\n", time.Since(begun).Round(time.Second))
	}
	if len(all) == 0 && failed == nil && ctx.Err() == nil {
		return fmt.Errorf("-only %s is no promise that is proven here; there are %s", *only, strings.Join(proven(), " "))
	}
	return errors.Join(print(os.Stdout, all), failed, ctx.Err(), broken(all))
}

// proven returns the promises that the runs prove.
func proven() (all []string) {
	for _, r := range runs {
		all = append(all, r.promises...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// prove runs the tests and returns their proofs.
func (r run) prove(ctx context.Context, timeout time.Duration) ([]promise.Proof, error) {
	cmd := command(ctx, "go", "test", "-json", "-count=1", "-timeout", timeout.String(), "-run", r.tests, r.pkg)
	cmd.Env = append(os.Environ(), "LK_FULL=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	proofs, err := collect(out, os.Stdout)
	if err != nil {
		_, _ = io.Copy(io.Discard, out) // so that it can end
	}
	failed := cmd.Wait()
	if err == nil && ctx.Err() == nil {
		proofs = append(proofs, r.unsaid(proofs, failed != nil)...)
	}
	return proofs, err
}

// command returns a command that is killed together with all of its child processes when ctx ends.
// Without that, go test would leave the test running.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// unsaid returns a broken proof for each promise that the tests did not report, and one if the
// tests failed although all reported promises were kept.
func (r run) unsaid(said []promise.Proof, failed bool) (all []promise.Proof) {
	for _, id := range r.promises {
		if !slices.ContainsFunc(said, func(p promise.Proof) bool { return p.Promise == id }) {
			all = append(all, promise.Proof{Promise: id, What: r.pkg + " " + r.tests, Measured: "the tests said nothing"})
		}
	}
	if failed && broken(slices.Concat(said, all)) == nil {
		all = append(all, promise.Proof{Promise: r.promises[0], What: r.pkg + " " + r.tests, Measured: "a test failed beside"})
	}
	return all
}

func broken(all []promise.Proof) error {
	if slices.ContainsFunc(all, func(p promise.Proof) bool { return !p.Kept }) {
		return errors.New("not every promise was kept")
	}
	return nil
}
