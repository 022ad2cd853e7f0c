// Command migrate updates the schema of the database. It is a Lambda function that a deployment
// runs before it updates the other functions.
package main

import (
	"os"

	"github.com/lanekeeper/lanekeeper/shared/app/seed"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
	"github.com/lanekeeper/lanekeeper/shared/edge"
)

func main() {
	edge.Main("migrate", os.Environ(), nil, func(sandbox *edge.Sandbox) error {
		return edge.StartMigrate(sandbox, edge.Migration[migrate.Result]{Up: migrate.Postgres, Seed: seed.Seed, Email: auth.Email})
	})
}
