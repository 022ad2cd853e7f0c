package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// promises are the promises of the design that have mutants. The table shows which parts of the
// product fulfil them.
var promises = []string{
	"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R12", "R13", "R14", "R15", "R16", "R17", "R18", "R19", "R20",
	"R21", "R22", "R24", "R25", "R26", "R27", "R28", "R29", "R30", "R32", "R33", "R34", "R35", "R36",
	"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9",
}

func TestEveryMutantCanBeTried(t *testing.T) {
	all, err := load(table)
	if err != nil {
		t.Fatal(err)
	}
	names, held := map[string]bool{}, map[string]int{}
	for _, m := range all {
		if names[m.Name] {
			t.Errorf("two mutants have the name %q", m.Name)
		}
		names[m.Name] = true
		for _, p := range m.Promises {
			held[p]++
		}
		if len(m.Promises) == 0 || len(m.Tests) == 0 {
			t.Errorf("mutant %q lacks a promise or a test", m.Name)
		}
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			t.Errorf("mutant %q: %v", m.Name, err)
			continue
		}
		if _, err := m.mutate(string(text)); err != nil {
			t.Error(err)
		}
		tests := testsOf(t, m.Package)
		for _, name := range m.Tests {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("mutant %q: %s has no test %s", m.Name, m.Package, name)
			}
		}
	}
	for _, p := range promises {
		if held[p] == 0 {
			t.Errorf("promise %s has no mutant", p)
		}
	}
	for p := range held {
		if !slices.Contains(promises, p) {
			t.Errorf("a mutant names promise %s, which is not in the list", p)
		}
	}
}

// created is where a migration creates a function.
var created = regexp.MustCompile(`CREATE (?:OR REPLACE )?FUNCTION (\w+)`)

// TestMutantsAreOfFunctionsInTheirNewestForm: a later migration that creates the function anew would
// make a mutant of an earlier one change nothing.
func TestMutantsAreOfFunctionsInTheirNewestForm(t *testing.T) {
	all, err := load(table)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "migrations", "postgres", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	newest, texts := map[string]string{}, map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		name := "migrations/postgres/" + filepath.Base(f)
		texts[name] = up
		for _, found := range created.FindAllStringSubmatch(up, -1) {
			newest[found[1]] = name
		}
	}
	for _, m := range all {
		before, _, _ := strings.Cut(texts[m.File], m.Before)
		if found := created.FindAllStringSubmatch(before, -1); texts[m.File] != "" && len(found) > 0 {
			if of := found[len(found)-1][1]; newest[of] != m.File {
				t.Errorf("mutant %q changes %s in %s, and %s creates it anew", m.Name, of, m.File, newest[of])
			}
		}
	}
}

// testsOf returns the text of a package's test files.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// A test that checks one constant kills the mutant of that constant and does not notice a mutant
// elsewhere. It is not run for a mutant that does not build.
func TestWhatBecomesOfAMutant(t *testing.T) {
	own := mutant{
		File:    "infra/rig/mutants/try.go",
		Package: "./infra/rig/mutants",
		Tests:   []string{"TestAHungMutantEndsInTime"},
		Before:  "const patience = 4 * time.Minute",
	}
	for want, after := range map[verdict]string{
		killed:   "const patience = 4 * time.Hour",
		survived: "const patience = 3 * time.Minute",
		invalid:  "const patience = 4 * time.Century",
	} {
		m := own
		m.Name, m.After = string(want), after
		if got, out := try(t.Context(), root, m); got != want {
			t.Errorf("the mutant %q was %s, want %s:\n%s", after, got, want, out)
		}
	}
	missing := own
	missing.Before = "no such text"
	if got, _ := try(t.Context(), root, missing); got != invalid {
		t.Errorf("a mutant whose text is gone was %s, want %s", got, invalid)
	}
}

func TestAHungMutantEndsInTime(t *testing.T) {
	if patience.Minutes() > 10 {
		t.Errorf("a mutant may take %s", patience)
	}
}

func TestATestThatFailsAnywayIsToldOf(t *testing.T) {
	gone := mutant{Package: "./infra/rig/mutants", Tests: []string{"TestAHungMutantEndsInTime", "TestThatIsNotThere"}}
	err := hunter{root, 2, io.Discard}.healthy(t.Context(), []mutant{gone})
	if err == nil || !strings.Contains(err.Error(), "TestThatIsNotThere did not run") {
		t.Errorf("got %v, want that TestThatIsNotThere did not run", err)
	}
}
