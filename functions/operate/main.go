// Command operate serves the admin's API. It is a Lambda function behind a REST API or a function
// URL that streams responses.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operate:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartHTTP(func(core *app.Core) (http.Handler, error) {
		return web.NewOperate(core, sandbox.ID(), sandbox.Background, sandbox.KickWorker)
	})
}
