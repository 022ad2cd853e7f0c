package coordinate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/fault"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Cycle runs one cycle in a workspace under the lane coordinator. why says what woke it. While another
// caller asks for the lane, a task was put back, or the tasks that no budget can pay hide others, it goes
// round again, three times at most. Where another cycle runs, it asks that one to go round again and
// returns a [lane.BusyError].
func (c *Coordinator) Cycle(ctx context.Context, ws db.Workspace, why string) (Report, error) {
	began := time.Now()
	id, ok := trace.From(ctx)
	if !ok {
		id = c.Traces.New(trace.Coordinator)
		ctx = trace.With(ctx, id)
	}
	ctx = trace.WithWorkspace(ctx, string(ws))
	holder := lane.NewHolder("coordinator", c.Instance, id)
	var sum Report
	look := spare
	for sum.Rounds < roundsAtMost {
		var r round
		err := c.Lanes.Do(ctx, lane.Request{Workspace: ws, Lane: lane.Coordinator, Holder: holder}, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
			r = round{c: c, ws: ws, hold: h, why: why, began: time.Now(), spare: look}
			return r.run(ctx)
		})
		if busy, isBusy := errors.AsType[*lane.BusyError](err); isBusy {
			if sum.Rounds > 0 {
				break // somebody else goes round now
			}
			if busy.WantedAt == nil {
				err = errors.Join(err, c.Lanes.Want(ctx, ws, busy.Info, string(holder)))
			}
		}
		if err != nil {
			sum.Took = time.Since(began)
			return sum, fmt.Errorf("coordinate: %w", err)
		}
		sum = sum.plus(r.report)
		sum.Rounds++
		if r.hides {
			look = widerSpare
		}
		if !r.again && r.hold.WantedBy() == "" {
			break
		}
	}
	sum.Took = time.Since(began)
	return sum, nil
}

// plus adds what a further round has done. The counts of what was found are those of the last round.
func (r Report) plus(o Report) Report {
	o.Assigned += r.Assigned
	for spawner, n := range r.Spawned {
		if o.Spawned == nil {
			o.Spawned = map[string]int{}
		}
		o.Spawned[spawner] += n
	}
	o.Recovered += r.Recovered
	o.Requeued += r.Requeued
	o.Unclaimed += r.Unclaimed
	o.TimedOut += r.TimedOut
	o.Failed += r.Failed
	o.Warned += r.Warned
	o.Paused += r.Paused
	o.Gone += r.Gone
	o.Commands += r.Commands
	o.MassStale = o.MassStale || r.MassStale
	o.Rounds = r.Rounds
	return o
}

// round is one time through a cycle.
type round struct {
	c      *Coordinator
	ws     db.Workspace
	hold   *lane.Hold
	why    string
	began  time.Time
	report Report
	again  bool // there is more to do at once
	spare  int  // how many candidates of a queue budgets may refuse
	hides  bool // budgets have refused so many of a queue that agents are left who could do what is behind

	last     *time.Time // when the cycle before ended
	paces    bool       // this round sets the pace of budgets
	watching time.Time
	watched  time.Duration // since then
	settings workspace.Settings
}

func (r *round) run(ctx context.Context) error {
	if err := r.tend(ctx); err != nil {
		return err
	}
	if err := fault.Point(ctx, "coordinate.tended", string(r.ws)); err != nil {
		return err
	}
	if err := r.pace(ctx); err != nil {
		return err
	}
	return r.assign(ctx)
}

// pacedEvery is how often cycles project the budgets, which sums up the usage of a day.
const pacedEvery = 20 * time.Second

// pace has the budgets let work begin as fast as their projections recommend.
func (r *round) pace(ctx context.Context) error {
	c := r.c
	if r.paces = r.paces && c.Budgets != nil; !r.paces {
		return nil
	}
	changed, err := c.Budgets.Paces(ctx, r.ws)
	if err != nil || len(changed) == 0 {
		return err
	}
	err = c.Lanes.InHold(ctx, r.hold, func(ctx context.Context, tx lane.Tx) error {
		c.Budgets.SetPaces(tx.Later(), changed)
		for _, a := range changed[:min(len(changed), maxNamed)] {
			message := fmt.Sprintf("the pace of the budget of %s is %s (%s before)", a.Level(), a.Recommendation, a.Pace)
			r.note(ctx, tx.Later(), task.Info, "budget_pace", message, nil)
		}
		return tx.Flush(ctx)
	})
	if err != nil {
		return fmt.Errorf("set the pace of budgets: %w", err)
	}
	return nil
}

// state reads when the cycle before ended, decides since when cycles have followed each other, and reads the settings.
func (r *round) state(b *db.Batch) {
	b.Each(func(scan db.Scan) error {
		var now time.Time
		var since, paced *time.Time
		var settings json.RawMessage
		if err := scan(&r.last, &since, &paced, &settings, &now); err != nil {
			return err
		}
		r.settings = workspace.Decode(settings)
		r.paces = paced == nil || now.Sub(*paced) >= pacedEvery
		r.watching = now
		if r.last != nil && since != nil && now.Sub(*r.last) <= longestGap {
			r.watching = *since
		}
		r.watched = now.Sub(r.watching)
		return nil
	}, r.c.q.State).MustFind()
}

// tend decides about agents and about tasks that wait or work, in one transaction.
func (r *round) tend(ctx context.Context) error {
	c := r.c
	report, again := r.report, r.again
	err := c.Lanes.InHold(ctx, r.hold, func(ctx context.Context, tx lane.Tx) error {
		r.report, r.again = report, again
		var locked []string
		var all []worker
		var waiting []edge
		var orders []command
		b := tx.Later()
		r.state(b)
		b.Each(commands(&orders), c.q.Commands)
		b.Each(edges(&waiting), c.q.Waiting)
		b.Each(db.Column(&locked), c.q.LockDoubtful)
		if err := tx.Each(ctx, workers(&all), c.q.Agents, firstAgent, lastAgent); err != nil {
			return err
		}
		v := watch(all, locked, r.watching)
		list := r.obey(orders, all, locked, &v)
		for i, d := range doom(waiting) {
			if i >= mostDoomed && d.path == nil { // a cycle is seen as a whole or not at all
				r.again = true
				break
			}
			list = append(list, d.task)
			if d.on != "" {
				list = append(list, d.on)
			}
		}
		spent, err := r.spent(ctx, tx, &list)
		if err != nil {
			return err
		}
		decisions, err := r.decide(ctx, tx, v, orders, spent, list)
		if err != nil {
			return err
		}
		return r.apply(ctx, tx, v, orders, decisions)
	})
	if err != nil {
		return fmt.Errorf("tend agents and tasks: %w", err)
	}
	return nil
}

// decide changes the agents, locks the tasks that may have to change, those in the list among them, and
// decides about them in new statements.
func (r *round) decide(ctx context.Context, tx Tx, v verdict, orders []command, spent spending, list []string) ([]decision, error) {
	c := r.c
	if len(v.changes) > 0 {
		tx.Later().Exec(c.q.UpdateAgents, db.Encode(v.changes))
	}
	claim, late, silent, idle := -claimWithin.Milliseconds(), -lateAfter.Milliseconds(), -silentFor.Milliseconds(), -warnedFor.Milliseconds()
	var locked []string
	watched := r.watched.Milliseconds()
	if err := tx.Each(ctx, db.Column(&locked), c.q.LockTasks, db.Encode(distinct(list)), claim, late, silent, watched); err != nil {
		return nil, err
	}
	if len(locked) == 0 {
		return nil, nil
	}
	var found []doubt
	var waiting []edge
	tx.Later().Each(doubts(&found), c.q.Doubtful, db.Encode(locked), claim, late, silent, watched, idle)
	if err := tx.Each(ctx, edges(&waiting), c.q.WaitingOf, db.Encode(locked)); err != nil {
		return nil, err
	}
	ends := map[string]doomed{}
	for _, d := range doom(waiting) {
		ends[d.task] = d
	}
	gone := map[string]bool{}
	for _, id := range v.gone {
		gone[id] = true
	}
	var out []decision
	for _, d := range found {
		waits := d.Status == task.Pending || d.Status == task.Paused || d.Status == task.Aborted && !d.Cancelled
		if why, ends := ends[d.ID]; ends && waits {
			out = append(out, d.end(why))
			continue
		}
		if order := reassigned(orders, d.ID); order != nil {
			if made, ok := order.reassign(d); ok {
				out = append(out, made)
				r.again = true
				continue
			}
		}
		if made, ok := spent.decide(d); ok {
			out = append(out, made)
			continue
		}
		if made, ok := d.decide(v.mass && gone[d.Agent], c.Random()); ok {
			out = append(out, made)
		}
	}
	return out, nil
}

// spending is what budgets say about tasks, by their ids.
type spending struct {
	pause  map[string]budget.Overspent
	resume map[string]bool
}

// spent asks which tasks have no budget left, and which have one again, and adds them to the list.
func (r *round) spent(ctx context.Context, tx Tx, list *[]string) (spending, error) {
	s := spending{map[string]budget.Overspent{}, map[string]bool{}}
	if r.c.Budgets == nil {
		return s, nil
	}
	found, err := r.c.Budgets.Exhausted(ctx, tx)
	if err != nil {
		return s, err
	}
	for _, o := range found.Pause {
		s.pause[o.Task] = o
		*list = append(*list, o.Task)
	}
	for _, id := range found.Resume {
		s.resume[id] = true
	}
	*list = append(*list, found.Resume...)
	return s, nil
}

// decide pauses a task without budget, or has one go on that has a budget again.
func (s spending) decide(d doubt) (decision, bool) {
	over, isOver := s.pause[d.ID]
	switch {
	case isOver && d.Status.Active() && d.Attempt == over.Attempt && !d.lost:
		out := d.begin(task.Paused, paused, task.Warn, task.BudgetEvent, over.Why())
		out.move.Reason, out.move.Outcome = opt(budget.PauseReason), opt("paused")
		return out, true
	case s.resume[d.ID] && d.Status == task.Paused && d.StatusReason == budget.PauseReason: // a person may have paused it since
		return d.begin(task.Pending, requeued, task.Info, task.BudgetEvent, "its budget has room again"), true
	}
	return decision{}, false
}

// mostDoomed is how many tasks that can't begin any more one round ends. The next one goes on behind them.
const mostDoomed = 5000

// maxCycles is the largest number of cycles of dependencies for which one round makes an event. The log of
// each task names its own cycle.
const maxCycles = 20

// maxNamed bounds the ids in an event, whose data the database bounds.
const maxNamed = 100

// stopped adds to a batch that tasks have failed after an attempt: a run of it, or of an earlier one, may be open.
func (c *Coordinator) stopped(b *db.Batch, moves []move) {
	var over []string
	for _, m := range moves {
		if m.Becomes == task.Failed && m.Attempt > 0 {
			over = append(over, m.ID)
		}
	}
	if len(over) > 0 && c.Tasks.Stopped != nil {
		c.Tasks.Stopped(b, over...)
	}
}

// apply writes what was decided, each table in one statement.
func (r *round) apply(ctx context.Context, tx Tx, v verdict, orders []command, decisions []decision) error {
	c, b := r.c, tx.Later()
	var moves []move
	var warned []move
	var lines []line
	for _, d := range decisions {
		d.line.Log = c.IDs()
		lines = append(lines, d.line)
		if d.warn {
			warned = append(warned, d.move)
		} else {
			moves = append(moves, d.move)
		}
		r.count(d)
	}
	var moved *db.Op
	if len(moves) > 0 {
		moved = b.Exec(c.q.Move, db.Encode(moves))
		b.Exec(c.q.EndAttempts, db.Encode(attemptEnds(moves)))
	}
	if len(warned) > 0 {
		b.Exec(c.q.Warn, db.Encode(warned))
	}
	if len(lines) > 0 {
		b.Exec(c.q.Logs, db.Encode(lines), Actor, traced(ctx))
	}
	if len(orders) > 0 {
		b.Exec(c.q.Done, db.Encode(outcomes(orders)))
		r.report.Commands += len(orders)
	}
	r.noteCycles(ctx, b, decisions)
	if v.mass { // one event names all agents and covers their tasks
		decisions = slices.DeleteFunc(slices.Clone(decisions), func(d decision) bool {
			return d.line.Agent != nil && slices.Contains(v.gone, *d.line.Agent)
		})
	} else {
		r.noteGone(ctx, b, v)
	}
	r.noteDecided(ctx, b, decisions)
	r.report.Healthy, r.report.Stale, r.report.Gone, r.report.MassStale = v.healthy, v.stale, r.report.Gone+len(v.gone), v.mass
	if v.mass {
		r.noteMass(ctx, b, v)
	}
	c.stopped(b, moves)
	if err := tx.Flush(ctx); err != nil { // so that the row count is known before COMMIT
		return fmt.Errorf("change tasks: %w", err)
	}
	if moved != nil && moved.Affected() != int64(len(moves)) {
		return fmt.Errorf("%d of %d locked tasks could be changed", moved.Affected(), len(moves))
	}
	return nil
}

// noteCycles logs each cycle of dependencies that was found, once for all of its tasks, and makes an
// event of it.
func (r *round) noteCycles(ctx context.Context, b *db.Batch, decisions []decision) {
	noted := map[string]bool{}
	for _, d := range decisions {
		if d.line.Event == task.DependencyCycle && !noted[*d.line.Details] && len(noted) < maxCycles {
			noted[*d.line.Details] = true
			r.note(ctx, b, task.Error, "dependency_cycle", d.line.Message, d.line.Details)
			b.Exec(r.c.q.Tell, "task.dependency_cycle", d.move.ID, traced(ctx), *d.line.Details)
		}
	}
}

// noteMass logs that many agents disappeared at once, and makes one event of it.
func (r *round) noteMass(ctx context.Context, b *db.Batch, v verdict) {
	gone := map[string]any{"gateway_restart": true, "count": len(v.gone), "agents": v.gone}
	details := db.Encode(gone)
	message := fmt.Sprintf("%d agents disappeared at once", v.missing)
	if n := len(v.gone); n < v.missing {
		message += fmt.Sprintf(", %d of them found now", n)
	}
	message += ": their tasks are tried again, spread over time"
	r.note(ctx, b, task.Critical, "gateway_restart", message, &details)
	gone["agents"] = v.gone[:min(len(v.gone), maxNamed)]
	b.Exec(r.c.q.Tell, "agent.stale", nil, traced(ctx), db.Encode(gone))
}

// attemptEnd is the end of the attempt of a move.
type attemptEnd struct {
	ID      string  `json:"id"`
	Attempt int     `json:"attempt"`
	Outcome *string `json:"outcome"`
	Error   *string `json:"error"`
}

func attemptEnds(moves []move) (out []attemptEnd) {
	for _, m := range moves {
		out = append(out, attemptEnd{m.ID, m.Attempt, m.Outcome, m.Error})
	}
	return out
}

func (r *round) count(d decision) {
	switch d.kind {
	case recovered:
		r.report.Recovered++
	case requeued:
		r.report.Requeued++
	case unclaimed:
		r.report.Unclaimed++
	case timedOut:
		r.report.TimedOut++
	case warned:
		r.report.Warned++
	case paused:
		r.report.Paused++
	case failed: // counted below
	}
	if d.move.Becomes == task.Failed {
		r.report.Failed++
	}
}

// note queues a row of the coordinator's log.
func (r *round) note(ctx context.Context, b *db.Batch, level task.Level, event, message string, details *string) {
	if runes := []rune(message); len(runes) > 1000 {
		message = string(runes[:999]) + "…"
	}
	b.Exec(r.c.q.Note, r.c.IDs(), level, event, message, details, traced(ctx))
}

// noteGone notes the agents that were silent for too long.
func (r *round) noteGone(ctx context.Context, b *db.Batch, v verdict) {
	if len(v.gone) == 0 {
		return
	}
	message := fmt.Sprintf("agent \"%s\" was silent for too long", v.names[0])
	if n := len(v.gone); n > 1 {
		message = fmt.Sprintf("%d agents were silent for too long, \"%s\" among them", n, v.names[0])
	}
	details := db.Encode(map[string]any{"agents": v.gone[:min(len(v.gone), maxNamed)]})
	r.note(ctx, b, task.Warn, "agent_stale", message, &details)
}

// noteDecided notes what went wrong with tasks: one row for each event and level, however many tasks there are.
func (r *round) noteDecided(ctx context.Context, b *db.Batch, decisions []decision) {
	type group struct {
		event task.Event
		level task.Level
	}
	var order []group
	of := map[group][]decision{}
	for _, d := range decisions {
		at := group{d.line.Event, d.line.Level}
		if d.line.Level == task.Info || d.line.Level == task.Debug || d.line.Event == task.DependencyCycle { // which has its own notes
			continue
		}
		if of[at] == nil {
			order = append(order, at)
		}
		of[at] = append(of[at], d)
	}
	for _, at := range order {
		first, _, _ := strings.Cut(of[at][0].line.Message, ";")
		message := "1 task: " + first
		if n := len(of[at]); n > 1 {
			message = fmt.Sprintf("%d tasks: %s", n, first)
		}
		var tasks []string
		for _, d := range of[at][:min(len(of[at]), maxNamed)] {
			tasks = append(tasks, d.move.ID)
		}
		details := db.Encode(map[string]any{"tasks": tasks})
		r.note(ctx, b, at.level, string(at.event), message, &details)
	}
}

// distinct returns ids, each once, in the order of their first appearance.
func distinct(list []string) []string {
	out, seen := []string{}, map[string]bool{}
	for _, id := range list {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// record writes what the round found and did, in its last transaction, and releases the lane.
func (r *round) record(ctx context.Context, tx lane.Tx) error {
	c, b := r.c, tx.Later()
	b.Exec(c.q.Purge, (time.Duration(r.settings.HeartbeatHours) * time.Hour).Milliseconds())
	b.Exec(c.q.PurgeNotes, notesKept.Milliseconds())
	b.Exec(c.q.PurgeCommands, notesKept.Milliseconds())
	if err := tx.Each(ctx, func(scan db.Scan) error { return scan(&r.report.Pending, &r.report.Running) }, c.q.Counts); err != nil {
		return err
	}
	s := r.report
	b.Exec(c.q.Record, r.watching, time.Since(r.began).Milliseconds(), c.Instance, clip(r.why, 255), s.Pending, s.Running, s.Healthy, s.Stale,
		s.Assigned, s.Recovered, s.Failed, r.paces)
	tx.Release(c.Lanes, r.hold)
	return nil
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
