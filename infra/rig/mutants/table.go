package main

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed table/*.txt
var table embed.FS

// A mutant is one mistake. Before, which occurs once in File, becomes After. The tests named in
// Tests, of package Package and run with Flags, must notice it.
type mutant struct {
	Name          string
	Promises      []string // such as R2 or S1, see promises
	File          string
	Package       string
	Tests, Flags  []string
	Before, After string
}

// load reads the tables. A mutant has this form:
//
//	== a stale holder may write
//	promise R2
//	file shared/lane/lane.postgres.sql
//	test ./shared/lane TestAStaleHolderChangesNothing
//	-    AND token = $3
//	+    AND true
//
// Lines that begin with - are the text in the file. Lines that begin with + replace it. Both may be
// a part of a line of the file. Lines that begin with # are comments.
func load(files fs.FS) ([]mutant, error) {
	names, err := fs.Glob(files, "table/*.txt")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		some, err := parse(bufio.NewScanner(f))
		if err := f.Close(); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func parse(lines *bufio.Scanner) ([]mutant, error) {
	var all []mutant
	var before, after []string
	finish := func() {
		if len(all) > 0 {
			m := &all[len(all)-1]
			m.Before, m.After = strings.Join(before, "\n"), strings.Join(after, "\n")
		}
		before, after = nil, nil
	}
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "== "); ok {
			finish()
			all = append(all, mutant{Name: name})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d stands before the first mutant", n)
		}
		switch m, words := &all[len(all)-1], strings.Fields(line); {
		case line[0] == '-':
			before = append(before, line[1:])
		case line[0] == '+':
			after = append(after, line[1:])
		case len(words) < 2:
			return nil, fmt.Errorf("line %d: %q is no field of a mutant", n, line)
		case words[0] == "promise":
			m.Promises = words[1:]
		case words[0] == "file" && len(words) == 2:
			m.File = words[1]
		case words[0] == "test" && len(words) > 2:
			m.Package, m.Tests, m.Flags = split(words[1:])
		default:
			return nil, fmt.Errorf("line %d: %q is no field of a mutant", n, line)
		}
	}
	finish()
	return all, lines.Err()
}

// split separates the package, the tests and the flags of a line "test".
func split(words []string) (pkg string, tests, flags []string) {
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "-") {
			flags = append(flags, w)
		} else {
			tests = append(tests, w)
		}
	}
	return words[0], tests, flags
}

// mutate returns the text of the mutant's file with the mistake in it.
func (m mutant) mutate(text string) (string, error) {
	switch n := strings.Count(text, m.Before); {
	case m.Before == "" || m.Before == m.After:
		return "", fmt.Errorf("mutant %q changes nothing", m.Name)
	case n != 1:
		return "", fmt.Errorf("mutant %q: its text stands %d times in %s, want once:\n%s", m.Name, n, m.File, m.Before)
	}
	return strings.Replace(text, m.Before, m.After, 1), nil
}
