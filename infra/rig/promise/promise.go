// Package promise has a test say which promise of the product it proves, and at which
// figure. `make chaos` collects what they say, and prints it as a table.
//
// With LK_FULL=1 a test proves its promise at the full figure, else at one that fits
// in `make test`. Random tests take their seed from CHAOS_SEED, and print it.
package promise

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Mark stands in the output of a test before the JSON of a [Proof].
const Mark = "promise: "

// A Proof is what a test says of a promise.
type Proof struct {
	Promise  string // such as R34
	What     string // was tried
	Goal     string
	Measured string
	Kept     bool // the test passed
}

// Of begins a proof, which is told when the test ends, whichever way.
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

// Tell says what was measured; the last word counts.
func (p *Proof) Tell(format string, args ...any) { p.Measured = fmt.Sprintf(format, args...) }

// Full reports whether promises are proven at their full figures.
func Full() bool { return os.Getenv("LK_FULL") == "1" }

// Figure is full where promises are proven at their full figures, else small.
func Figure(small, full int) int {
	if Full() {
		return full
	}
	return small
}

// Seed is that of a random test: the one in CHAOS_SEED, or a new one. It is printed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	t.Logf("CHAOS_SEED=%d", seed)
	return seed
}
