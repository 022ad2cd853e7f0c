// Command worker does the tasks of built-in agents. It is a Lambda function that is invoked
// asynchronously, once for each task and again until the task is done.
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
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartWorker(func(core *app.Core) (edge.Work, error) {
		w, err := wire.NewWorker(core, sandbox.ID(), sandbox.KickWorker, sandbox.KickOperate)
		if err != nil {
			return nil, err
		}
		return w.Run, nil
	})
}
