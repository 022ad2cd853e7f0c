// Command heartbeat runs the agent's heartbeat as a Lambda function on a schedule.
package main

import (
	"fmt"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "heartbeat:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartHeartbeat(func(core *app.Core) (edge.Beat, error) {
		h, err := wire.NewHeartbeat(core, sandbox.ID(), sandbox.Kick, sandbox.KickTend)
		if err != nil {
			return nil, err
		}
		return h.Run, nil
	})
}
