package task_test

import (
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestDependenciesAreReadAlongTheirEdges: what it takes to read what a task depends on does not grow with the
// workspace. Of its 3,000 tasks only the first depends on others: on the second, which depends on the third.
func TestDependenciesAreReadAlongTheirEdges(t *testing.T) {
	const numbered = `('00000000-0000-7000-8000-' || lpad(CAST(%s AS text), 12, '0'))::uuid`
	number := func(n string) string { return strings.ReplaceAll(numbered, "%s", n) }
	g := dbtest.NewGrown(t)
	g.Fill(t,
		`INSERT INTO agent_tasks (workspace_id, id, title, created_by, created_at, updated_at)
			SELECT $1, `+number("i")+`, 'x', 'ada', lk_now(), lk_now() FROM generate_series(1, 3000) i`,
		`INSERT INTO agent_task_dependencies (workspace_id, task_id, depends_on)
			SELECT $1, `+number("i")+`, CASE WHEN i <= 2 THEN `+number("i + 1")+` ELSE `+number("i - 1")+` END
			  FROM generate_series(1, 3000) i WHERE i NOT IN (3, 4)`)
	g.Exec(t, "ANALYZE agent_tasks, agent_task_dependencies")
	plan := g.Explain(t, "task.Edges", `["00000000-0000-7000-8000-000000000001"]`)
	rows := 0.0
	for step := range plan.Steps() {
		if step.Table == "agent_task_dependencies" {
			rows += (step.Rows + step.Refused) * step.Loops
		}
	}
	if rows < 1 || rows > 10 {
		t.Errorf("it reads %.0f edges for 2: %s", rows, plan)
	}
}

func TestDependenciesAreReadAlongTheirEdgesOnSQLite(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	var b db.Batch
	var of [3000]string
	for i := range of {
		of[i] = ids()
		b.Exec(w.q.AddTask, of[i])
	}
	b.Exec(w.q.AddEdge, of[0], of[1])
	b.Exec(w.q.AddEdge, of[1], of[2])
	for i := 4; i < len(of); i++ { // the tasks of others
		b.Exec(w.q.AddEdge, of[i], of[i-1])
	}
	if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
		t.Fatal(err)
	}
	along := 0
	for _, step := range w.ExplainSQLite(t, "task.Edges", `["`+of[0]+`"]`) {
		if strings.HasPrefix(step, "SCAN d") || strings.HasPrefix(step, "SEARCH d") {
			along++
			if !strings.HasSuffix(step, "(workspace_id=? AND task_id=?)") {
				t.Errorf("a step reads more than the edges of a task: %s", step)
			}
		}
	}
	if along == 0 {
		t.Error("no step reads edges")
	}
}

// TestATaskEndsByItselfOnSQLite: no other is read.
func TestATaskEndsByItselfOnSQLite(t *testing.T) {
	lite := dbtest.New(t, dbtest.OnSQLite)
	for name, args := range map[string][]any{
		"task.Complete":     {"[]"},
		"task.EndCompleted": {"[]"},
	} {
		if all := lite.ReadsAllOnSQLite(t, name, args...); len(all) > 0 {
			t.Errorf("%s reads all: %q", name, all)
		}
	}
}
