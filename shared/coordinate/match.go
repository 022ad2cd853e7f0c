package coordinate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// queue has the due tasks that need the same capabilities, and that the same budgets pay for.
type queue struct {
	name  string
	needs []string // capabilities
}

func queues(into *[]queue) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, q *queue) error {
		var needs string
		err := scan(&q.name, &needs)
		q.needs = capabilities(needs)
		return err
	})
}

// capabilities reads the requiredCapabilities of a task's metadata: a list of names, or one name. Of a
// list, what is no text is named by its JSON, so that no agent has it.
func capabilities(raw string) []string {
	var list []json.RawMessage
	if json.Unmarshal([]byte(raw), &list) != nil {
		list = []json.RawMessage{json.RawMessage(raw)}
	}
	out := make([]string, len(list))
	for i, item := range list {
		if json.Unmarshal(item, &out[i]) != nil {
			out[i] = string(item)
		}
	}
	return out
}

// candidate is a task that could begin.
type candidate struct {
	task.Task
	queue  string
	former string // the agent of its latest attempt
}

func candidates(into *[]candidate) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, t *candidate) error {
		var metadata string
		err := scan(&t.ID, &t.Title, &t.queue, &t.Priority, &t.CreatedAt, &t.Attempt, &t.Version, db.Optional(&t.Type), db.Optional(&t.Project),
			db.Optional(&t.Milestone), db.Optional(&t.Thread), &metadata, db.Optional(&t.former))
		t.Metadata = json.RawMessage(metadata)
		return err
	})
}

// Obstacle is why an agent gets no task now.
type Obstacle struct {
	Code  task.Code
	Agent string
	Why   string
	Next  string // what a person can do about it; empty: wait
	Until *time.Time
}

// circuit is the circuit of a spawner.
type circuit struct {
	failures int
	until    *time.Time
	open     bool
	err      string
}

// target names where an agent is started, for the circuits.
func (w worker) target() string {
	if !w.perTask() {
		return ""
	}
	return string(w.Spawner) + " " + w.SpawnerTarget
}

// obstacle returns why an agent gets no task, whatever it needs. A claim proves that the agent is
// there: only what it is assigned unasked needs a heartbeat.
func (w worker) obstacle(circuits map[string]circuit, claims bool) *Obstacle {
	no := func(code task.Code, next, format string, args ...any) *Obstacle {
		return &Obstacle{Code: code, Agent: w.ID, Why: fmt.Sprintf("agent \"%s\" ", w.Name) + fmt.Sprintf(format, args...), Next: next}
	}
	switch {
	case w.halted:
		return no(task.IsPaused, "release the switch", "is stopped by a kill switch")
	case !w.CoordinatorEnabled:
		return no(task.WaitsForAgent, "set that to true", "gets no tasks from the coordinator (coordinatorEnabled is false)")
	case w.Status == agent.Draining:
		return no(task.WaitsForAgent, "register another agent", "is %s", w.Status)
	case w.Status != agent.Idle && w.Status != agent.Working:
		return no(task.WaitsForAgent, "see why it sends no good heartbeats, or register another agent", "is %s", w.Status)
	case w.Spawner == agent.SpawnLambda && w.SpawnerTarget == "":
		return no(task.WaitsForAgent, "set that to the name of its function", "has no spawnerTarget")
	case !claims && w.Spawner == agent.SpawnPull && w.LastSeenAt == nil:
		return no(task.WaitsForAgent, "start it: its first heartbeat brings it tasks", "has never sent a heartbeat")
	case circuits[w.target()].open:
		o := no(task.WaitsForAgent, "see why it can't be started", "can't be started: its spawner has failed %d times in a row",
			circuits[w.target()].failures)
		o.Until = circuits[w.target()].until
		return o
	case w.free() <= 0:
		return no(task.WaitsForCapacity, "", "works on %d of at most %d tasks", w.Tasks, w.MaxConcurrentTasks)
	}
	return nil
}

// can reports whether an agent has all capabilities.
func (w worker) can(needs []string) bool {
	return !slices.ContainsFunc(needs, func(n string) bool { return !slices.Contains(w.Capabilities, n) })
}

// assignment gives a task to an agent.
type assignment struct {
	candidate
	to *worker
}

// attempt returns the number of the attempt that begins.
func (a assignment) attempt() int { return a.Attempt + 1 }

// pool is the agents that can take tasks, with what they would be able to take after each decision.
type pool struct {
	of     []*worker
	probes map[string]bool // targets whose circuit is tried by one task
	open   map[string]circuit
	byNeed map[string][]*worker // by the name of a queue
	needs  map[string][]string
}

func newPool(all []worker, locked []string, list []queue, circuits map[string]circuit, claims bool) *pool {
	p := &pool{probes: map[string]bool{}, open: circuits, byNeed: map[string][]*worker{}, needs: map[string][]string{}}
	for i := range all {
		if w := &all[i]; slices.Contains(locked, w.ID) && w.obstacle(circuits, claims) == nil {
			p.of = append(p.of, w)
		}
	}
	for _, q := range list {
		p.needs[q.name] = q.needs
		for _, w := range p.of {
			if w.can(q.needs) {
				p.byNeed[q.name] = append(p.byNeed[q.name], w)
			}
		}
	}
	return p
}

// free returns how many tasks the agents can take.
func (p *pool) free() (n int) {
	for _, w := range p.of {
		n += max(0, w.free())
	}
	return n
}

// widest returns how many tasks of one queue the agents can take at most.
func (p *pool) widest() (most int) {
	for _, of := range p.byNeed {
		n := 0
		for _, w := range of {
			n += max(0, w.free())
		}
		most = max(most, n)
	}
	return most
}

// served returns the names of the queues that some agent can serve, sorted.
func (p *pool) served() []string {
	out := []string{}
	for name, of := range p.byNeed {
		if len(of) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// best returns the agent for a task, none of those without: not the one whose attempt at it ended last, if
// there is another; the least loaded; then the one that is idle for the longest time.
func (p *pool) best(t candidate, without []*worker) *worker {
	var best *worker
	for _, w := range p.byNeed[t.queue] {
		if w.free() <= 0 || p.probes[w.target()] || slices.Contains(without, w) {
			continue
		}
		if best == nil || compare(w, best, t.former) < 0 {
			best = w
		}
	}
	return best
}

func compare(a, b *worker, former string) int {
	again := func(w *worker) int {
		if w.ID == former {
			return 1
		}
		return 0
	}
	idle := func(w *worker) int64 {
		if w.IdleSince == nil {
			return w.now.UnixMicro()
		}
		return w.IdleSince.UnixMicro()
	}
	return cmp.Or(
		cmp.Compare(again(a), again(b)),
		cmp.Compare(a.Tasks*b.MaxConcurrentTasks, b.Tasks*a.MaxConcurrentTasks), // the shares that are in use
		cmp.Compare(idle(a), idle(b)),
		cmp.Compare(a.ID, b.ID))
}

// take notes that an agent got a task.
func (p *pool) take(w *worker) {
	w.Tasks++
	if p.open[w.target()].failures >= circuitOpens {
		p.probes[w.target()] = true // half open: one task tries it
	}
}

// match gives the candidates, in their order, to the agents. hold reserves the money for an attempt, or
// says why it can't. An agent without budget leaves the task to the others; a task that can't be paid
// waits and blocks nobody behind it. limit bounds the assignments. refused counts the tasks that can't be paid, crowded
// those whose thread goes to a task before them.
func (p *pool) match(due []candidate, limit int, hold func(assignment) error) (out []assignment, refused, crowded int) {
	threads := map[string]bool{}
	for _, t := range due {
		if len(out) >= limit {
			break
		}
		if t.Thread != "" && threads[t.Thread] {
			crowded++
			continue
		}
		w, err := p.payable(t, hold)
		if err != nil {
			refused++
		}
		if w == nil {
			continue
		}
		if t.Thread != "" {
			threads[t.Thread] = true
		}
		p.take(w)
		out = append(out, assignment{t, w})
	}
	return out, refused, crowded
}

// payable returns the best agent for a task whose money could be held: nil if there is none, with the
// last refusal.
func (p *pool) payable(t candidate, hold func(assignment) error) (w *worker, err error) {
	var without []*worker
	for w = p.best(t, nil); w != nil; w = p.best(t, without) {
		if err = hold(assignment{t, w}); err == nil {
			return w, nil
		}
		if is, ok := errors.AsType[*budget.RefusedError](err); !ok || is.Scope != budget.Agent {
			break // no other agent could pay either
		}
		without = append(without, w)
	}
	return nil, err
}

// rawText is a JSON value as text.
type rawText string

// UnmarshalJSON implements [json.Unmarshaler].
func (r *rawText) UnmarshalJSON(b []byte) error {
	*r = rawText(b)
	return nil
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	return nil
}
