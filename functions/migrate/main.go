// Command migrate updates the schema of the database. It is a Lambda function that a deployment
// runs before it updates the other functions.
package main

import (
	"fmt"
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/edge"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

func run() error {
	return edge.StartMigrate(edge.NewSandbox(os.Environ(), os.Stdout, nil), edge.Migration[migrate.Result]{
		Up: migrate.Postgres, Seed: seed.Seed, Email: auth.Email,
	})
}
