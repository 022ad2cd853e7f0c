// Command mutants breaks the shipped code and the shipped SQL on purpose, one mistake at a time,
// and runs the tests that must notice it:
//
//	go run ./infra/rig/mutants                 # all of them
//	go run ./infra/rig/mutants -only 'fence'   # those whose name or file matches
//	go run ./infra/rig/mutants -from 120       # from the 120th on: the rest of a run that was stopped
//	go run ./infra/rig/mutants -wide -only …   # by all tests of their packages
//
// The folder table lists the mutants. The command changes no file: the go command builds each
// mutant from an overlay. The exit code is 1 if a mutant survives, does not build, or names a test
// that fails without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository's folder")
	only := flags.String("only", "", "a regular expression for names and files of mutants")
	from := flags.Int("from", 1, "begin with the mutant of this `number`, as a run without -only prints it")
	parallel := flags.Int("p", runtime.GOMAXPROCS(0), "try this `number` of mutants at the same time")
	wide := flags.Bool("wide", false, "run all tests of a mutant's package, and tell which of them notice")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("read -only: %w", err)
	}
	all, err := load(table)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all[min(max(*from-1, 0), len(all)):] {
		if wanted.MatchString(m.Name) || wanted.MatchString(m.File) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no mutant matches -only and -from")
	}
	if *wide {
		return widely(ctx, *root, chosen, out)
	}
	return hunter{*root, max(*parallel, 1), out}.hunt(ctx, chosen, *from)
}

// A hunter tries mutants of the repository in root, several at the same time, and prints the results in
// their order.
type hunter struct {
	root     string
	parallel int
	out      io.Writer
}

// hunt runs the named tests without a mutant, then against each mutant. It numbers the mutants from
// first on. It returns an error that counts the failures.
func (h hunter) hunt(ctx context.Context, mutants []mutant, first int) error {
	began, out := time.Now(), h.out
	fmt.Fprintf(out, "the tests of %d mutants, without a mutant:\n", len(mutants))
	if err := h.healthy(ctx, mutants); err != nil {
		return err
	}
	type result struct {
		verdict verdict
		output  string
		took    time.Duration
	}
	counts := map[verdict]int{}
	inOrder(len(mutants), h.parallel, func(i int) result {
		since, m := time.Now(), mutants[i]
		m.Flags = append(slices.Clip(m.Flags), "-failfast")
		v, output := try(ctx, h.root, m)
		return result{v, output, time.Since(since)}
	}, func(i int, r result) {
		if ctx.Err() != nil {
			return
		}
		m := mutants[i]
		counts[r.verdict]++
		fmt.Fprintf(out, "%3d/%d %-9s %5.1f s  %s (%s)\n",
			first+i, first+len(mutants)-1, r.verdict, r.took.Seconds(), m.Name, m.File)
		if r.verdict == invalid {
			fmt.Fprintln(out, r.output)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(out, "%d mutants, %d survivors, %d invalid, %.0f s\n",
		len(mutants), counts[survived], counts[invalid], time.Since(began).Seconds())
	if n := counts[survived] + counts[invalid]; n > 0 {
		return fmt.Errorf("%d mutants survived or could not be tried", n)
	}
	return nil
}

// inOrder does the jobs 0 to n-1, at most parallel of them at the same time, and passes on their results
// in the order of the jobs.
func inOrder[T any](n, parallel int, do func(int) T, done func(int, T)) {
	results, free := make([]chan T, n), make(chan struct{}, parallel)
	for i := range results {
		results[i] = make(chan T, 1)
	}
	go func() {
		for i := range n {
			free <- struct{}{}
			go func() {
				results[i] <- do(i)
				<-free
			}()
		}
	}()
	for i, r := range results {
		done(i, <-r)
	}
}

// widely prints for each mutant which of all tests of its package notice it.
func widely(ctx context.Context, root string, mutants []mutant, out io.Writer) error {
	for _, m := range mutants {
		m.Tests = []string{".*"}
		v, output := try(ctx, root, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(out, "%-9s %s (%s)\n", v, m.Name, m.File)
		for line := range strings.Lines(output) {
			if strings.HasPrefix(line, "--- FAIL: ") {
				fmt.Fprint(out, "  ", line)
			}
		}
	}
	return nil
}
