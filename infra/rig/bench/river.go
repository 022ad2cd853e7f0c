package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/shared/coordinate"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

const (
	oneByOne  = 60    // tasks that are worked singly, in one round
	inBatches = 2_000 // tasks that are worked in batches, in one round
	ofBatch   = 1_000
	sideRuns  = 3 // rounds; the medians count
)

// besideRiver works tasks from their creation to their end, and as many jobs with River on the same
// server, in turns: singly, and in batches.
func besideRiver(ctx context.Context, _ int) ([]Row, error) {
	d, at, stop, err := database(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	owner, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	defer owner.Close(ctx)
	r, its, end, err := startRiver(ctx, owner, at)
	if err != nil {
		return nil, err
	}
	defer end()
	c, err := coordinator(d)
	if err != nil {
		return nil, err
	}
	c.Tasks.Wake = func(ctx context.Context, b *db.Batch) { coordinate.Kick(ctx, c.Outbox, b) } // as in every function
	ws, err := seedTasks(ctx, owner, 0, 1, ofBatch)
	if err != nil {
		return nil, err
	}
	h, err := newHand(ctx, d, c, owner, ws)
	if err != nil {
		return nil, err
	}
	var q bareQueries
	if err := db.Load(bare, &q); err != nil {
		return nil, err
	}
	// Both are warm, and the servers' statistics are those that autovacuum would have collected by then.
	if err := errors.Join(h.singly(ctx, oneByOne), h.inBatches(ctx, inBatches)); err != nil {
		return nil, err
	}
	for _, mode := range []string{"singly", "statements", "workers"} {
		if _, err := r.work(ctx, mode, ofBatch, ofBatch); err != nil {
			return nil, err
		}
	}
	if err := analyze(ctx, owner, its); err != nil {
		return nil, err
	}
	var singly, batches, writes, ours, theirs, oursMany, theirsMany []float64
	for range sideRuns {
		mine, err := timed(func() error { return h.singly(ctx, oneByOne) })
		if err != nil {
			return nil, err
		}
		river, err := r.work(ctx, "singly", oneByOne, 1)
		if err != nil {
			return nil, err
		}
		three, err := timed(func() error {
			for range 3 * oneByOne {
				if _, err := d.Exec(ctx, "", q.Update, rowID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		singly, writes = append(singly, river/mine), append(writes, mine/three)
		ours, theirs = append(ours, oneByOne/mine*1e6), append(theirs, oneByOne/river*1e6)

		if mine, err = timed(func() error { return h.inBatches(ctx, inBatches) }); err != nil {
			return nil, err
		}
		best, err := r.work(ctx, "statements", inBatches, ofBatch)
		if err != nil {
			return nil, err
		}
		workers, err := r.work(ctx, "workers", inBatches, ofBatch)
		if err != nil {
			return nil, err
		}
		best = min(best, workers)
		batches = append(batches, best/mine)
		oursMany, theirsMany = append(oursMany, inBatches/mine*1e6), append(theirsMany, inBatches/best*1e6)
	}
	return []Row{
		{
			Name: "tasks per second over River, singly", Value: median(singly), Least: 1.5,
			Detail: fmt.Sprintf("%.0f and %.0f tasks/s, created, claimed and completed one after the other", median(ours), median(theirs)),
		},
		{
			Name: "tasks per second over River, in batches", Value: median(batches), Least: 1.5,
			Detail: fmt.Sprintf("%.0f and %.0f tasks/s in batches of %d; River's best of its workers and its statements", median(oursMany), median(theirsMany), ofBatch),
		},
		{
			Name: "create, claim and complete over three durable writes", Value: median(writes), Limit: 1.25,
			Detail: "one-row updates, each in a transaction of its own",
		},
	}, nil
}

// singly creates, claims and completes tasks one after the other.
func (h *hand) singly(ctx context.Context, n int) error {
	for range n {
		if err := h.create(ctx, 1); err != nil {
			return err
		}
		t, err := h.claim(ctx)
		if err != nil {
			return err
		}
		if err := h.complete(ctx, []task.Task{t}); err != nil {
			return err
		}
	}
	return nil
}

// inBatches creates tasks together, has a cycle assign them together, and completes them together.
func (h *hand) inBatches(ctx context.Context, n int) error {
	for done := 0; done < n; done += ofBatch {
		if err := h.create(ctx, ofBatch); err != nil {
			return err
		}
		did, err := h.c.Cycle(ctx, h.ws, "bench")
		if err != nil {
			return err
		}
		var given []task.Task
		f := task.Filter{Status: task.Assigned, Agent: h.agent, Limit: ofBatch}
		if given, err = h.c.Tasks.List(ctx, h.ws, f); err != nil {
			return err
		}
		if did.Assigned != ofBatch || len(given) != ofBatch {
			return fmt.Errorf("a cycle assigned %d of %d tasks, of which %d are listed", did.Assigned, ofBatch, len(given))
		}
		if err := h.complete(ctx, given); err != nil {
			return err
		}
	}
	return nil
}

// river is the process that works jobs with River.
type river struct {
	orders  *json.Encoder
	answers *json.Decoder
}

// analyze has both databases collect statistics.
func analyze(ctx context.Context, owner *pgx.Conn, river string) error {
	its, err := pgx.Connect(ctx, river)
	if err != nil {
		return err
	}
	defer its.Close(ctx)
	_, err1 := owner.Exec(ctx, "VACUUM ANALYZE")
	_, err2 := its.Exec(ctx, "VACUUM ANALYZE")
	return errors.Join(err1, err2)
}

// startRiver builds and starts the rivals, on a database of their own in the same server, whose URL it
// returns.
func startRiver(ctx context.Context, owner *pgx.Conn, at string) (r *river, database string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "lanekeeper-rivals-")
	if err != nil {
		return nil, "", nil, err
	}
	end := func() { _ = os.RemoveAll(dir) }
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "rivals"), ".")
	build.Dir, build.Stderr = filepath.Join("infra", "rig", "bench", "rivals"), os.Stderr
	if err := build.Run(); err != nil {
		end()
		return nil, "", nil, fmt.Errorf("build the rivals: %w", err)
	}
	its, err := url.Parse(at)
	if err == nil {
		_, err = owner.Exec(ctx, "CREATE DATABASE river")
	}
	if err != nil {
		end()
		return nil, "", nil, err
	}
	its.Path = "/river"
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "rivals"))
	cmd.Env = append(os.Environ(), "DATABASE_URL="+its.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		end()
		return nil, "", nil, err
	}
	stop = func() {
		_ = in.Close() // which ends it
		_ = cmd.Wait()
		end()
	}
	return &river{json.NewEncoder(in), json.NewDecoder(out)}, its.String(), stop, nil
}

// work has River work jobs. It returns how many microseconds that took.
func (r *river) work(ctx context.Context, mode string, jobs, size int) (float64, error) {
	var answer struct {
		Seconds float64 `json:"seconds"`
		Err     string  `json:"err"`
	}
	err := r.orders.Encode(map[string]any{"mode": mode, "jobs": jobs, "size": size})
	if err == nil {
		err = r.answers.Decode(&answer)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, io.EOF):
		return 0, errors.New("the rivals have ended")
	case err != nil:
		return 0, err
	case answer.Err != "":
		return 0, fmt.Errorf("work tasks with River, %s: %s", mode, answer.Err)
	}
	return answer.Seconds * 1e6, nil
}
