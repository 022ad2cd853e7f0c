// Command connected is the smallest bootstrap with a database: it connects, reads the schema's
// version, and runs an empty transaction.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

func main() {
	d, err := postgres.Open(postgres.Config{URL: os.Getenv("DATABASE_URL"), Schema: migrations.Latest()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "connected:", err)
		os.Exit(1)
	}
	lambda.Start(func(ctx context.Context) (string, error) { return "hello", d.Check(ctx) })
}
