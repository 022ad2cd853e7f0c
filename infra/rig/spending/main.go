// Command spending prints what the budget package promises of estimates and of routing, on seeded data
// whose noise and mix it states:
//
//	go run ./infra/rig/spending estimates
//	go run ./infra/rig/spending routing
//
// It exits with 1 if a goal is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	seed := flag.Uint64("seed", 14, "of the random data")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, flag.Arg(0), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "spending:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("the goal is missed")

func run(ctx context.Context, w io.Writer, what string, seed uint64) error {
	switch what {
	case "estimates":
		return estimates(ctx, w, seed)
	case "routing":
		return routing(ctx, w, seed)
	}
	return errors.New("expected estimates or routing")
}
