package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience is the time limit for the tests of one mutant. A mutant that makes the tests hang counts
// as noticed.
const patience = 4 * time.Minute

// A verdict is the result of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	invalid  verdict = "INVALID" // it does not apply, or does not build
)

// try runs the mutant's tests against the mutant and returns their output.
func try(ctx context.Context, root string, m mutant) (verdict, string) {
	dir, err := os.MkdirTemp("", "lanekeeper-mutant-")
	if err != nil {
		return invalid, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := write(dir, root, m)
	if err != nil {
		return invalid, err.Error()
	}
	out, err := test(ctx, root, m.Package, m.Tests, append([]string{"-overlay", overlay}, m.Flags...))
	switch {
	case err == nil:
		return survived, out
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return invalid, out
	}
	return killed, out
}

// write writes the mutant's file into dir and returns the path of the overlay that names it.
func write(dir, root string, m mutant) (string, error) {
	file, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	mutated, err := m.mutate(string(text))
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(changed, []byte(mutated), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, overlay, 0o600)
}

// test runs tests of a package and returns their output.
func test(ctx context.Context, root, pkg string, tests, flags []string) (string, error) {
	args := []string{"test", "-count=1", "-vet=off", "-ldflags=-s", "-timeout", patience.String(), "-run", "^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "go", append(append(args, flags...), pkg)...)
	cmd.Dir = root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// A suite is the set of tests of one package that run with the same flags.
type suite struct {
	pkg, flags string
	tests      []string
}

// healthy runs all tests of the mutants without a mutant. A test that fails without a mutant proves
// nothing.
func (h hunter) healthy(ctx context.Context, mutants []mutant) error {
	var suites []suite
	for _, m := range mutants {
		flags := strings.Join(m.Flags, " ")
		i := slices.IndexFunc(suites, func(s suite) bool { return s.pkg == m.Package && s.flags == flags })
		if i < 0 {
			i, suites = len(suites), append(suites, suite{pkg: m.Package, flags: flags})
		}
		for _, t := range m.Tests {
			if !slices.Contains(suites[i].tests, t) {
				suites[i].tests = append(suites[i].tests, t)
			}
		}
	}
	type result struct {
		printed string
		err     error
		took    time.Duration
	}
	var failed []error
	inOrder(len(suites), h.parallel, func(i int) result {
		since, s := time.Now(), suites[i]
		printed, err := test(ctx, h.root, s.pkg, s.tests, append([]string{"-v"}, strings.Fields(s.flags)...))
		return result{printed, err, time.Since(since)}
	}, func(i int, r result) {
		s := suites[i]
		if r.err != nil {
			failed = append(failed, fmt.Errorf("%s fails without a mutant: %w\n%s", s.pkg, r.err, r.printed))
			return
		}
		for _, t := range s.tests {
			if !strings.Contains(r.printed, "--- PASS: "+t+" (") {
				failed = append(failed, fmt.Errorf("%s: test %s did not run", s.pkg, t))
			}
		}
		fmt.Fprintf(h.out, "  %-32s %3d tests %5.1f s\n", s.pkg, len(s.tests), r.took.Seconds())
	})
	return errors.Join(failed...)
}
