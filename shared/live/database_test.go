package live_test

import (
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/live/livetest"
)

// TestConformance: a database passes each case of the contract, whatever engine it is.
func TestConformance(t *testing.T) {
	p := promise.Of(t, "R20", "one conformance suite on SQLite, Postgres and PgBouncer", ">= 300 cases, the same outcomes")
	n := 0
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		n = livetest.Run(t, livetest.OnDatabase(t, e),
			slices.Concat(livetest.Tasks(), livetest.Threads(), livetest.Messages(), livetest.Ephemeral()))
	})
	if n < 300 {
		t.Errorf("%d cases", n)
	}
	p.Tell("%d cases on each of 3", n)
}
