package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/queue"
)

// A verb is the next event of a script.
type verb int

const (
	come   verb = iota // a job arrives
	inner              // a job arrives inside a job that runs
	end                // a job that runs and has no inner job ends
	cancel             // the context of a job is cancelled
)

// A step of a script selects its job among the possible ones, modulo their number.
type step struct {
	verb  verb
	pick  int
	queue int
	user  bool
}

func (s step) String() string {
	return fmt.Sprintf("{%d %d %d %t}", s.verb, s.pick, s.queue, s.user)
}

// TestAgainstAReferenceScheduler: in whatever order jobs arrive, end and are cancelled, each job
// has the status that the model gives it, after each step.
func TestAgainstAReferenceScheduler(t *testing.T) {
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			verb:  rapid.SampledFrom([]verb{come, come, inner, inner, inner, inner, end, end, cancel}).Draw(t, "verb"),
			pick:  rapid.IntRange(0, 11).Draw(t, "pick"),
			queue: rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(t, "queue"),
			user:  rapid.Bool().Draw(t, "user"),
		}
	}), 50, 200)
	seen := map[status]int{}
	rapid.Check(t, func(r *rapid.T) {
		script := steps.Draw(r, "script")
		room, maxPassed := rapid.IntRange(1, 5).Draw(r, "room"), rapid.IntRange(1, 3).Draw(r, "maxPassed")
		var differs string
		synctest.Test(t, func(t *testing.T) { differs = play(t.Context(), script, room, maxPassed, seen) })
		if differs != "" {
			r.Fatal(differs)
		}
	})
	for _, s := range []status{ended, full, circular, canceled} {
		if seen[s] < 20 {
			t.Errorf("only %d jobs were %s: the scripts show nothing", seen[s], s)
		}
	}
}

// realJob is a job in the real queues that does what the script says.
type realJob struct {
	mu      sync.Mutex
	ctx     context.Context // the job's own context while it runs
	cancel  context.CancelFunc
	release chan none
	status  status
}

func (j *realJob) set(s status) { j.mu.Lock(); defer j.mu.Unlock(); j.status = s }

func (j *realJob) is() status { j.mu.Lock(); defer j.mu.Unlock(); return j.status }

// run enters the job and records its outcome.
func (j *realJob) run(ctx context.Context, q *queue.Queues, job queue.Job) {
	err := do(ctx, q, job, func(ctx context.Context) error {
		j.ctx = ctx
		j.set(runs)
		<-j.release
		return nil
	})
	_, circle := errors.AsType[*queue.CycleError](err)
	switch {
	case err == nil:
		j.set(ended)
	case isFull(err):
		j.set(full)
	case circle:
		j.set(circular)
	case errors.Is(err, context.Canceled):
		j.set(canceled)
	default:
		j.set(status(err.Error()))
	}
}

// play plays a script with real queues and the model until all jobs have ended. It returns where
// they differ.
func play(ctx context.Context, script []step, room, maxPassed int, seen map[status]int) string {
	m := newModel([]int{1, 1, 2, 3}, room, maxPassed)
	queues := map[string]queue.Limits{}
	for name, n := range m.places {
		queues[strconv.Itoa(name)] = queue.Limits{MaxConcurrent: n, Cap: room}
	}
	q := queue.New(queue.Options{Queues: queues, MaxPassed: maxPassed})
	var jobs []*realJob
	var all sync.WaitGroup
	for n := 0; n < len(script) || slices.ContainsFunc(m.jobs, (*modelJob).live); n++ {
		s := step{verb: end} // after the script
		if n < len(script) {
			s = script[n]
		}
		var can []int
		for i, j := range m.jobs {
			if s.verb == inner && j.status == runs || s.verb == end && m.mayEnd(j) || s.verb == cancel && j.live() {
				can = append(can, i)
			}
		}
		if s.verb != come && len(can) == 0 {
			if n >= len(script) {
				return fmt.Sprintf("nothing can end any more: %v", script)
			}
			continue
		}
		if s.verb == come || s.verb == inner {
			j, under := &modelJob{queue: s.queue, user: s.user}, ctx
			if s.verb == inner {
				i := can[s.pick%len(can)]
				j.parent, under = m.jobs[i], jobs[i].ctx
			}
			m.come(j)
			r := &realJob{release: make(chan none), status: waits}
			under, r.cancel = context.WithCancel(under)
			jobs = append(jobs, r)
			job := queue.Job{Queue: strconv.Itoa(s.queue)}
			if s.user {
				job.Class = queue.User
			}
			all.Go(func() { r.run(under, q, job) })
		} else if i := can[s.pick%len(can)]; s.verb == end {
			m.end(m.jobs[i])
			close(jobs[i].release)
		} else {
			m.cancel(m.jobs[i])
			jobs[i].cancel()
		}
		synctest.Wait()
		if d := differ(m, jobs, q); d != "" {
			for _, r := range jobs {
				r.cancel()
			}
			synctest.Wait() // nobody waits now
			for _, r := range jobs {
				if r.is() == runs {
					close(r.release)
				}
			}
			all.Wait()
			return fmt.Sprintf("after step %d, %v: %s", n, s, d)
		}
	}
	all.Wait()
	for _, r := range jobs {
		r.cancel()
		seen[r.is()]++
	}
	return ""
}

// differ compares all jobs and the counts.
func differ(m *model, jobs []*realJob, q *queue.Queues) string {
	var all []string
	for i, r := range jobs {
		if got, want := r.is(), m.jobs[i].status; got != want {
			all = append(all, fmt.Sprintf("job %d of queue %d: %s, and not: %s", i, m.jobs[i].queue, got, want))
		}
	}
	for name := range m.places {
		s := stats(q)[strconv.Itoa(name)]
		if s.Active != len(m.in(name, runs)) || s.Depth != len(m.in(name, waits)) {
			all = append(all, fmt.Sprintf("queue %d: %+v", name, s))
		}
	}
	return strings.Join(all, "; ")
}
