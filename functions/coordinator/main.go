// Command coordinator gives tasks to agents, on a schedule, and serves the API of agents and machines.
// It is a Lambda function behind an HTTP API.
package main

import (
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	edge.Main("coordinator", os.Environ(), invoke.Async(), func(sandbox *edge.Sandbox) error {
		return sandbox.StartCoordinator(func(core *app.Core) (edge.Coordinator, error) {
			return web.NewCoordinator(core, sandbox.ID(), sandbox.Background, sandbox.KickCycle, sandbox.KickOperate, sandbox.KickWorker)
		})
	})
}
