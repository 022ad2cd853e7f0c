// Command webhook receives webhooks. It verifies and stores each delivery, and the function operate
// runs the work that the delivery begins. It is a Lambda function behind an HTTP API.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/hook"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartHTTP(func(core *app.Core) (http.Handler, error) {
		return hook.New(core, sandbox.KickOperate)
	})
}
