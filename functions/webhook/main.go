// Command webhook takes webhooks from the world: it verifies and stores them, and has operate do
// what they ask for. It is a Lambda function behind an HTTP API.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/hook"
	"github.com/lanekeeper/lanekeeper/shared/edge"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(1)
	}
}

func run() error {
	sandbox := edge.NewSandbox(os.Environ(), os.Stdout)
	return sandbox.StartHTTP(func(core *app.Core) (http.Handler, error) {
		return hook.New(core, sandbox.KickOperate)
	})
}
