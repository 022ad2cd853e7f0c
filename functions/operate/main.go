// Command operate serves the admin's API. It is a Lambda function behind a REST API or a function
// URL that streams responses.
package main

import (
	"net/http"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/edge/invoke"
)

func main() {
	edge.Main("operate", os.Environ(), invoke.Async(), func(sandbox *edge.Sandbox) error {
		return sandbox.StartHTTP(func(core *app.Core) (http.Handler, error) {
			return web.NewOperate(core, sandbox.ID(), sandbox.Background, sandbox.KickWorker)
		})
	})
}
