// Command coordinator gives tasks to agents, on a schedule, and serves the API of agents and machines.
// It is a Lambda function behind an HTTP API.
package main

import (
	"fmt"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "coordinator:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartCoordinator(func(core *app.Core) (edge.Coordinator, error) {
		return web.NewCoordinator(core, sandbox.ID(), sandbox.Background, sandbox.KickCycle, sandbox.KickOperate, sandbox.KickWorker)
	})
}
