// Command web builds the Engine Room's page to shared/engineroom/dist. It is called by `make web`, at
// the root of the repository.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
)

func main() {
	room := filepath.Join("shared", "engineroom")
	if err := engineroom.Build(context.Background(), filepath.Join(room, "web"), filepath.Join(room, "dist")); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}
