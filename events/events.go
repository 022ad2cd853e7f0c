// Package events holds one event for each trigger and case of each function, the
// ordinary one first. `sam local invoke -e` sends them, and so do the tests, through
// the built functions.
package events

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed */*.json
var files embed.FS

// A Case is one event.
type Case struct {
	Function string // the folder in functions
	Name     string // 01_schedule
	Payload  []byte
}

// All are the cases in the order of their functions and numbers.
func All() []Case {
	names, err := fs.Glob(files, "*/*.json")
	if err != nil {
		return nil // only of a pattern that is malformed
	}
	cases := make([]Case, 0, len(names))
	for _, name := range names {
		payload, err := files.ReadFile(name)
		if err != nil {
			continue // what is embedded can be read
		}
		cases = append(cases, Case{path.Dir(name), strings.TrimSuffix(path.Base(name), ".json"), payload})
	}
	return cases
}

// For are the cases of one function.
func For(function string) []Case {
	var cases []Case
	for _, c := range All() {
		if c.Function == function {
			cases = append(cases, c)
		}
	}
	return cases
}
