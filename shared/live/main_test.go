package live_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The test servers live as long as the process; one goroutine per server waits for its end.
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/infra/rig/servers.spawn.func1"))
}
