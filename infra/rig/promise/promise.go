// Package promise lets a test report which promise of the product it proves, and at which figure.
// `make chaos` collects the reports and prints them as a table.
//
// With LK_FULL=1 a test proves its promise at the full figure, otherwise at a figure that fits into
// `make test`. Random tests print their seed and take it from CHAOS_SEED.
package promise

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Mark precedes the JSON of a [Proof] in the output of a test.
const Mark = "promise: "

// A Proof is the report of a test about a promise.
type Proof struct {
	Promise  string // such as R34
	What     string // what was tried
	Goal     string
	Measured string
	Kept     bool // the test passed
}

// Of begins a proof. It is printed when the test ends, also if the test fails.
func Of(t testing.TB, id, what, goal string) *Proof {
	t.Helper()
	p := &Proof{Promise: id, What: what, Goal: goal}
	t.Cleanup(func() {
		p.Kept = !t.Failed() && !t.Skipped()
		raw, err := json.Marshal(p)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s%s", Mark, raw)
	})
	return p
}

// Tell sets what was measured. The last call counts.
func (p *Proof) Tell(format string, args ...any) { p.Measured = fmt.Sprintf(format, args...) }

// Full reports whether promises are proven at their full figures.
func Full() bool { return os.Getenv("LK_FULL") == "1" }

// Figure returns full if promises are proven at their full figures, else small.
func Figure(small, full int) int {
	if Full() {
		return full
	}
	return small
}

// Seed returns the seed of a random test: the one in CHAOS_SEED, or a new one. It prints the seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	t.Logf("CHAOS_SEED=%d", seed)
	return seed
}
