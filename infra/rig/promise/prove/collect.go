package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
)

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

// collect reads the output of go test -json. It returns the proofs, and writes the output of failed
// tests to log.
func collect(out io.Reader, log io.Writer) (proofs []promise.Proof, err error) {
	said := map[string][]string{} // by test
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil { // output of the toolchain
				fmt.Fprintf(log, "    %s", line)
			}
			if text, ok := strings.CutPrefix(e.Output[max(0, strings.Index(e.Output, promise.Mark)):], promise.Mark); ok {
				var p promise.Proof
				if err := json.Unmarshal([]byte(text), &p); err != nil {
					return proofs, fmt.Errorf("a promise of %s: %w", e.Test, err)
				}
				proofs = append(proofs, p)
			}
			said[e.Test] = append(said[e.Test], e.Output)
			switch e.Action {
			case "fail":
				fmt.Fprintf(log, "%s", strings.Join(said[e.Test], ""))
				fallthrough
			case "pass", "skip":
				delete(said, e.Test)
			}
		}
		if err == io.EOF {
			return proofs, nil
		}
		if err != nil {
			return proofs, err
		}
	}
}

// print writes the table in the order of the promises.
func print(w io.Writer, all []promise.Proof) error {
	slices.SortStableFunc(all, func(a, b promise.Proof) int {
		if len(a.Promise) != len(b.Promise) { // R7 comes before R14
			return len(a.Promise) - len(b.Promise)
		}
		return strings.Compare(a.Promise, b.Promise)
	})
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\npromise\twhat\tgoal\tmeasured\t\n")
	for _, p := range all {
		verdict := "kept"
		if !p.Kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Promise, p.What, p.Goal, p.Measured, verdict)
	}
	return table.Flush()
}
