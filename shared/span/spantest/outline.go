package spantest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// Outline returns the names of a tree of spans, one a line and in the order of time. It fails the test unless
// the spans are one tree of one trace, and none begins before its parent.
func Outline(t testing.TB, spans []Span) string {
	t.Helper()
	spans = slices.SortedStableFunc(slices.Values(spans), func(a, b Span) int { return cmp.Compare(a.Begun, b.Begun) })
	byID := map[string]Span{}
	for _, s := range spans {
		if _, twice := byID[s.ID]; twice || s.Trace != spans[0].Trace {
			t.Errorf("%s has the id of another, or is in another trace", s.Name)
		}
		byID[s.ID] = s
	}
	var lines []string
	var below func(parent, indent string)
	below = func(parent, indent string) {
		for _, s := range spans {
			if s.Parent != parent {
				continue
			}
			if p, ok := byID[parent]; ok && s.Begun < p.Begun {
				t.Errorf("%s begins before %s", s.Name, p.Name)
			}
			lines = append(lines, indent+s.Name)
			below(s.ID, indent+"  ")
		}
	}
	below("", "")
	if len(lines) != len(spans) {
		t.Errorf("%d of %d spans are in the tree", len(lines), len(spans))
	}
	return strings.Join(lines, "\n")
}
