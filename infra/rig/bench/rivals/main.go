// Command rivals works jobs with River, for the benchmark to compare with. It has a module of its own,
// so that the product depends on none of it.
//
// It connects to the database in DATABASE_URL and creates River's schema there. Then it reads one
// [Order] a line, carries it out, and answers with one [Answer] a line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// Order says what to do. Every job is inserted, taken and completed.
type Order struct {
	// Mode is how: "singly", one job after the other; "statements", in batches by the statements of
	// River's driver alone; "workers", in batches by River's own workers.
	Mode string `json:"mode"`
	Jobs int    `json:"jobs"`
	Size int    `json:"size"` // of a batch
}

// Answer says how long an order took, or why it failed.
type Answer struct {
	Seconds float64 `json:"seconds"`
	Err     string  `json:"err,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

// serve carries out orders until there are no more.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	b := &bench{pool: pool, driver: riverpgxv5.New(pool)}
	if err := b.open(ctx); err != nil {
		return err
	}
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o Order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		begun := time.Now()
		var a Answer
		if err := b.carryOut(ctx, o); err != nil {
			a.Err = err.Error()
		}
		a.Seconds = time.Since(begun).Seconds()
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// args are the arguments of a job, as much as a task of the benchmark has.
type args struct {
	Title string `json:"title"`
}

// Kind implements [river.JobArgs].
func (args) Kind() string { return "bench" }

// idle is a worker that has nothing to do.
type idle struct {
	river.WorkerDefaults[args]
}

// Work implements [river.Worker].
func (idle) Work(context.Context, *river.Job[args]) error { return nil }

type bench struct {
	pool   *pgxpool.Pool
	driver *riverpgxv5.Driver
	insert *river.Client[pgx.Tx] // works nothing
	quiet  *slog.Logger
}

func (b *bench) open(ctx context.Context) error {
	b.quiet = slog.New(slog.DiscardHandler)
	m, err := rivermigrate.New(b.driver, &rivermigrate.Config{Logger: b.quiet})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("create River's schema: %w", err)
	}
	b.insert, err = river.NewClient(b.driver, &river.Config{Logger: b.quiet})
	return err
}

func (b *bench) carryOut(ctx context.Context, o Order) error {
	switch o.Mode {
	case "singly":
		for range o.Jobs {
			if _, err := b.insert.Insert(ctx, args{"task"}, nil); err != nil {
				return err
			}
			if n, err := b.work(ctx, 1); err != nil || n != 1 {
				return errors.Join(err, counted(n, 1))
			}
		}
		return nil
	case "statements":
		for done := 0; done < o.Jobs; done += o.Size {
			if err := b.fill(ctx, o.Size); err != nil {
				return err
			}
			if n, err := b.work(ctx, o.Size); err != nil || n != o.Size {
				return errors.Join(err, counted(n, o.Size))
			}
		}
		return nil
	case "workers":
		return b.workers(ctx, o)
	}
	return fmt.Errorf("%q is no mode", o.Mode)
}

func counted(n, want int) error {
	if n == want {
		return nil
	}
	return fmt.Errorf("%d of %d jobs were worked", n, want)
}

// fill inserts jobs in the fastest way that River has.
func (b *bench) fill(ctx context.Context, n int) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = args{"task"}
	}
	_, err := b.insert.InsertManyFast(ctx, jobs)
	return err
}

// work takes and completes jobs with one statement each.
func (b *bench) work(ctx context.Context, most int) (int, error) {
	exec := b.driver.GetExecutor()
	taken, err := exec.JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{
		ClientID: "bench", MaxAttemptedBy: 10, MaxToLock: most, Queue: river.QueueDefault,
	})
	if err != nil {
		return 0, err
	}
	now := time.Now()
	p := &riverdriver.JobSetStateIfRunningManyParams{Now: &now}
	for _, job := range taken.Jobs {
		p.ID = append(p.ID, job.ID)
		p.Attempt = append(p.Attempt, nil)
		p.ErrData = append(p.ErrData, nil)
		p.FinalizedAt = append(p.FinalizedAt, &now)
		p.MetadataDoMerge = append(p.MetadataDoMerge, false)
		p.MetadataUpdates = append(p.MetadataUpdates, nil)
		p.ScheduledAt = append(p.ScheduledAt, nil)
		p.State = append(p.State, rivertype.JobStateCompleted)
	}
	done, err := exec.JobSetStateIfRunningMany(ctx, p)
	return len(done), err
}

// workers inserts jobs while River's workers work them, and waits for the last.
func (b *bench) workers(ctx context.Context, o Order) error {
	known := river.NewWorkers()
	river.AddWorker(known, idle{})
	client, err := river.NewClient(b.driver, &river.Config{
		Logger: b.quiet, Workers: known, FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.Size}},
	})
	if err != nil {
		return err
	}
	ended, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}, ChanSize: o.Jobs,
	})
	defer unsubscribe()
	if err := client.Start(ctx); err != nil {
		return err
	}
	for done := 0; done < o.Jobs; done += o.Size {
		if err := b.fill(ctx, o.Size); err != nil {
			return err
		}
	}
	for range o.Jobs {
		select {
		case e := <-ended:
			if e.Kind != river.EventKindJobCompleted {
				return fmt.Errorf("job %d ended as %s", e.Job.ID, e.Job.State)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return client.Stop(ctx)
}
