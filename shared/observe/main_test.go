package observe_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// the test servers live as long as the process, and one goroutine each awaits their end
		goleak.IgnoreAnyFunction("github.com/lanekeeper/lanekeeper/infra/rig/servers.spawn.func1"))
}
