package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Blocked is an execution that waits for another.
type Blocked struct {
	Execution string
	// Thread is where it has a message queued. Empty: it waits for the end of an execution that it
	// has begun.
	Thread string
	Holder string // the execution that it waits for
}

// maxBlocking is the largest number of links that are listed.
const maxBlocking = 50

func collectBlocked(into *[]Blocked) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, b *Blocked) error {
		return scan(&b.Execution, db.Optional(&b.Thread), &b.Holder)
	})
}

// chainFrom sorts links into the order in which they are reached from an execution. It also returns
// the first cycle among them: each execution waits for the next, and the last for the first.
func chainFrom(execution string, links []Blocked) (chain []Blocked, circle []string) {
	slices.SortFunc(links, func(a, b Blocked) int {
		return cmp.Or(strings.Compare(a.Thread, b.Thread), strings.Compare(a.Holder, b.Holder))
	})
	var way []string
	seen := map[string]bool{}
	var follow func(string)
	follow = func(execution string) {
		if at := slices.Index(way, execution); at >= 0 && circle == nil {
			circle = slices.Clone(way[at:])
		}
		if seen[execution] {
			return
		}
		seen[execution] = true
		way = append(way, execution)
		for _, l := range links {
			if l.Execution == execution {
				chain = append(chain, l)
				follow(l.Holder)
			}
		}
		way = way[:len(way)-1]
	}
	follow(execution)
	return chain, circle
}

// tellBlocking adds what the holder waits for to the summary.
func (e *Explanation) tellBlocking(out *strings.Builder) {
	for _, b := range e.Blocking {
		if b.Thread == "" {
			fmt.Fprintf(out, "; execution %s waits for execution %s", b.Execution, b.Holder)
		} else {
			fmt.Fprintf(out, "; execution %s has a message queued in thread %s, which execution %s holds", b.Execution, b.Thread, b.Holder)
		}
	}
	if len(e.Circle) > 0 {
		out.WriteString("; they wait for each other in a circle, until one of them ends, lets go of its thread, or is idle for " + Idle.String())
	}
}
