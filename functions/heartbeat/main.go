// Command heartbeat runs the agent's heartbeat as a Lambda function on a schedule.
package main

import (
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	edge.Main("heartbeat", os.Environ(), invoke.Async(), func(sandbox *edge.Sandbox) error {
		return sandbox.StartHeartbeat(func(core *app.Core) (edge.Beat, error) {
			h, err := wire.NewHeartbeat(core, sandbox.ID(), sandbox.Kick, sandbox.KickTend)
			if err != nil {
				return nil, err
			}
			return h.Run, nil
		})
	})
}
