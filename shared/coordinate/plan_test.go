package coordinate_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/migrate"
)

// node is a node of a plan that was carried out.
type node struct {
	Rows  float64 `json:"Actual Rows"` // of each loop
	Loops float64 `json:"Actual Loops"`
	Plans []node
}

// most returns the largest number of rows of any node.
func (n node) most() float64 {
	most := n.Rows * n.Loops
	for _, of := range n.Plans {
		most = max(most, of.most())
	}
	return most
}

// TestTheWaitingGraphIsReadInOneGo, also where Postgres thinks that there are no tasks: a thousand new
// ones are not paired with each other.
func TestTheWaitingGraphIsReadInOneGo(t *testing.T) {
	const tasks = 1_000
	url := dbtest.NewDatabase(t)
	if _, err := migrate.Postgres(t.Context(), url, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	owner, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	ws := uuid.NewString()
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("ALTER TABLE agent_tasks SET (autovacuum_enabled = off)")
	run("VACUUM ANALYZE agent_tasks") // and not the dependencies, of which there have never been any
	run("INSERT INTO workspaces (id, slug, name) VALUES ($1, 'many', 'Many')", ws)
	run(`INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at)
		SELECT $1, gen_random_uuid(), 'x', 'ada', lk_now(), lk_now() FROM generate_series(1, $2::int)`, ws, tasks)
	statement := strings.ReplaceAll(coordinate.Waiting(t).Text(db.Postgres), "$1", "'"+ws+"'::uuid")
	var plans []struct{ Plan node }
	var raw []byte
	if err := owner.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+statement).Scan(&raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	if most := plans[0].Plan.most(); most > 2*tasks {
		t.Errorf("with %d tasks and no dependency it looks at %.0f rows:\n%s", tasks, most, raw)
	}
}
