package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

const (
	manyTasks  = 1_000_000
	fewTasks   = 1_000
	manyCalls  = 100_000
	benchActor = "bench"
)

// calls fills a workspace with calls of models within the last day.
const calls = `
INSERT INTO agent_usage_logs (workspace_id, id, trace_id, agent, surface, operation, model, input_tokens, output_tokens,
  cache_read_tokens, cache_write_tokens, created_at)
SELECT $1, gen_random_uuid(), 'co_1', 'a', 'co', 'model_call', 'some', 1, 1, 0, 0, lk_now() - n * interval '100 milliseconds'
  FROM generate_series(1, $2::int) n`

// claims measures a claim with a million pending tasks, where models are called all day, beside one with a
// thousand, in turns.
func claims(ctx context.Context, rounds int) ([]Row, error) {
	d, url, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	owner, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer owner.Close(ctx)
	c, err := coordinator(d)
	if err != nil {
		return nil, err
	}
	var of [2]*hand
	for i, n := range []int{manyTasks, fewTasks} {
		ws, err := seedTasks(ctx, owner, n, 1, 1)
		if err != nil {
			return nil, err
		}
		if of[i], err = newHand(ctx, d, c, owner, ws); err != nil {
			return nil, err
		}
	}
	if _, err := owner.Exec(ctx, calls, string(of[0].ws), manyCalls); err != nil {
		return nil, fmt.Errorf("fill in calls of models: %w", err)
	}
	var cost db.Stats
	var ratios []float64
	var times [2][]float64
	for i := range rounds + 10 {
		var took [2]float64
		for j, h := range of {
			before := d.Stats()
			var claimed task.Task
			if took[j], err = timed(func() (err error) { claimed, err = h.claim(ctx); return err }); err != nil {
				return nil, err
			}
			cost = d.Stats().Sub(before)
			if err := h.complete(ctx, []task.Task{claimed}); err != nil {
				return nil, err
			}
		}
		if i >= 10 { // after a warm-up
			ratios = append(ratios, took[0]/took[1])
			times[0], times[1] = append(times[0], took[0]/1e3), append(times[1], took[1]/1e3)
		}
	}
	return []Row{{
		Name: "claim at 1,000,000 pending over 1,000", Value: median(ratios), Limit: 1.5,
		Detail: fmt.Sprintf("%.1f and %.1f ms under 3 budget levels, 100,000 and no calls of models in a day, %d statements in %d round trips",
			median(times[0]), median(times[1]), cost.Statements, cost.RoundTrips),
	}}, nil
}

// hand creates, claims and completes tasks of a workspace for its one agent.
type hand struct {
	d     *db.DB
	c     *coordinate.Coordinator
	ws    db.Workspace
	agent string
}

func newHand(ctx context.Context, d *db.DB, c *coordinate.Coordinator, owner *pgx.Conn, ws db.Workspace) (*hand, error) {
	h := &hand{d: d, c: c, ws: ws}
	err := owner.QueryRow(ctx, "SELECT CAST(id AS text) FROM agents WHERE workspace_id = $1", string(ws)).Scan(&h.agent)
	return h, err
}

// create adds tasks in one transaction.
func (h *hand) create(ctx context.Context, n int) error {
	list := make([]task.Task, n)
	for i := range list {
		list[i] = task.Task{Title: "task", Priority: task.DefaultPriority, MaxRetries: task.DefaultRetries, BackoffSeconds: task.DefaultBackoff, CreatedBy: benchActor}
	}
	return h.d.Tx(ctx, h.ws, func(ctx context.Context, tx *db.Tx) error {
		_, err := h.c.Tasks.CreateAll(ctx, tx, list)
		return err
	})
}

func (h *hand) claim(ctx context.Context) (task.Task, error) {
	t, ok, err := h.c.Claim(ctx, h.ws, h.agent, "")
	if err == nil && !ok {
		err = fmt.Errorf("there was nothing to claim in workspace %s", h.ws)
	}
	return t, err
}

// complete ends tasks in one transaction, as their agent.
func (h *hand) complete(ctx context.Context, tasks []task.Task) error {
	all := make([]task.Completion, len(tasks))
	for i, t := range tasks {
		all[i].Report = task.Report{Task: t.ID, Attempt: t.Attempt, Actor: "agent:" + h.agent, Agent: h.agent}
	}
	return h.d.Tx(ctx, h.ws, func(ctx context.Context, tx *db.Tx) error {
		_, err := h.c.Tasks.CompleteAll(ctx, tx, all)
		return err
	})
}
