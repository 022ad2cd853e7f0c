// Package events holds sample events of each trigger of each function, the ordinary one first. `sam
// local invoke -e` sends them to the built functions, and so do the tests.
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
	Name     string // such as 01_schedule
	Payload  []byte
}

// All returns the cases, sorted by function and number.
func All() []Case {
	names, err := fs.Glob(files, "*/*.json")
	if err != nil {
		return nil // only for a malformed pattern
	}
	cases := make([]Case, 0, len(names))
	for _, name := range names {
		payload, err := files.ReadFile(name)
		if err != nil {
			continue // an embedded file can always be read
		}
		cases = append(cases, Case{path.Dir(name), strings.TrimSuffix(path.Base(name), ".json"), payload})
	}
	return cases
}

// For returns the cases of one function.
func For(function string) []Case {
	var cases []Case
	for _, c := range All() {
		if c.Function == function {
			cases = append(cases, c)
		}
	}
	return cases
}
