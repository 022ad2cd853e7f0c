package seed

import (
	"context"
	"embed"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed forget.sql
var forgetFiles embed.FS

type forgetQueries struct{ Agent db.Query }

// Forget deletes an agent of the demo from the default workspace if it is terminated and was created by that
// one. It keeps an agent that has worked on a task of others, because that task names it. It reports whether
// it deleted the agent. It is called by lanekeeper demo remove.
func Forget(ctx context.Context, core *app.Core, id, by string) (bool, error) {
	var q forgetQueries
	if err := db.Load(forgetFiles, &q); err != nil {
		return false, fmt.Errorf("forget the agent of the demo: %w", err)
	}
	n, err := core.DB.Exec(ctx, workspace.Default, q.Agent, id, by)
	if err != nil {
		return false, fmt.Errorf("forget the agent of the demo: %w", err)
	}
	return n > 0, nil
}
