// Command chat answers the visitors of web sites. It is a Lambda function behind a REST API or a
// function URL that streams responses.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/visit"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout, invoke.Async())
	return sandbox.StartHTTP(func(core *app.Core) (http.Handler, error) {
		return visit.NewFunction(core, sandbox.ID(), sandbox.Background, sandbox.KickOperate)
	})
}
