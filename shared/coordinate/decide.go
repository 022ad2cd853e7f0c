package coordinate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// doubt is a locked task about which a cycle decides.
type doubt struct {
	task.Task
	strikes int
	raised  bool

	lost        bool // its agent is gone
	agentStatus string
	spawner     string
	due         bool // its backoff is over
	unclaimed   bool // it was assigned long ago
	late        bool
	warned      bool // its agent was told that it is late
	idle        bool // and has not reported since
	silent      bool // its agent never sent a heartbeat, and has not reported for long
	unattended  bool // nothing has the built-in worker work on it
	stopped     bool // a kill switch stops its agent, which is not the built-in worker
	spawn       outbox.Status
}

func doubts(into *[]doubt) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, d *doubt) error {
		return scan(&d.ID, &d.Title, &d.Status, db.Optional(&d.StatusReason), &d.Cancelled, &d.Attempt, db.Optional(&d.Agent),
			db.Optional(&d.Session), &d.Retries, &d.MaxRetries, &d.BackoffSeconds, &d.Priority, &d.strikes, &d.raised, db.Optional(&d.Thread),
			&d.lost, &d.agentStatus, &d.spawner, &d.due, &d.unclaimed, &d.late, &d.warned, &d.idle, &d.silent, &d.unattended,
			&d.stopped, db.Optional(&d.spawn))
	})
}

// move is a change of a task that was locked with the status Was in this attempt, with its row of the
// log.
type move struct {
	ID      string      `json:"id"`
	Was     task.Status `json:"was"`
	Attempt int         `json:"attempt"`
	Becomes task.Status `json:"becomes"`
	Reason  *string     `json:"reason"`
	Error   *string     `json:"error"`
	WaitMS  int64       `json:"wait_ms"`
	Retries int         `json:"retries"`
	Strikes int         `json:"strikes"`
	Raise   int         `json:"raise"`
	Outcome *string     `json:"outcome"` // of the attempt under way
}

// line is a row of a task's log.
type line struct {
	Log     string     `json:"log"`
	ID      string     `json:"id"`
	Level   task.Level `json:"level"`
	Event   task.Event `json:"event"`
	Message string     `json:"message"`
	Details *string    `json:"details"`
	Was     *string    `json:"was"`
	Becomes *string    `json:"becomes"`
	Attempt *int       `json:"attempt"`
	Agent   *string    `json:"agent"`
	Session *string    `json:"session"`
}

// decision is what a cycle does with one task.
type decision struct {
	move move
	line line
	warn bool // only its agent is told
	kind kind
}

// kind is what a report counts.
type kind int

const (
	recovered kind = iota
	requeued
	unclaimed
	timedOut
	failed
	warned
	paused
)

func opt[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// begin starts a decision that takes a task to a status.
func (d doubt) begin(to task.Status, k kind, level task.Level, event task.Event, message string) decision {
	out := decision{kind: k, move: move{ID: d.ID, Was: d.Status, Attempt: d.Attempt, Becomes: to}}
	out.line = line{
		ID: d.ID, Level: level, Event: event, Message: message, Was: opt(string(d.Status)), Becomes: opt(string(to)),
		Attempt: opt(d.Attempt), Agent: opt(d.Agent), Session: opt(d.Session),
	}
	if d.Status.Active() {
		out.move.Outcome = opt("aborted")
	}
	return out
}

// lose decides about a task whose attempt is lost: it waits for its backoff, or has failed. A strike is
// an attempt that timed out or died by its own doing; too many quarantine the task. With spread, the
// waits of many tasks lie far apart.
func (d doubt) lose(k kind, event task.Event, why string, strike, spread bool, random float64) decision {
	strikes := d.strikes
	if strike {
		strikes++
	}
	switch {
	case strike && strikes >= maxStrikes:
		out := d.fail(k, event, fmt.Sprintf("poison: %d attempts timed out or died, the last one because of %s", strikes, why))
		out.move.Strikes = 1
		return out
	case d.Retries >= d.MaxRetries:
		out := d.fail(k, event, fmt.Sprintf("max retries exceeded (%d/%d), after %s", d.Retries, d.MaxRetries, why))
		if strike {
			out.move.Strikes = 1
		}
		return out
	}
	wait := task.Backoff(d.BackoffSeconds, d.Retries, random)
	if spread {
		wait = time.Duration(random * float64(max(wait, time.Minute)))
	}
	out := d.begin(task.Aborted, k, task.Warn, event, fmt.Sprintf("the attempt was lost (%s); the next begins in %s at the earliest", why, wait.Round(time.Second)))
	out.move.Error, out.move.WaitMS, out.move.Retries = opt(why), wait.Milliseconds(), 1
	if strike {
		out.move.Strikes = 1
	}
	return out
}

func (d doubt) fail(k kind, event task.Event, why string) decision {
	out := d.begin(task.Failed, k, task.Error, event, why)
	out.move.Error = opt(why)
	return out
}

// decide returns what happens to a task now. mass says that its agent disappeared together with most
// others.
func (d doubt) decide(mass bool, random float64) (decision, bool) {
	switch {
	case d.Cancelled:
		return decision{}, false
	case d.Status == task.Aborted && d.due:
		return d.begin(task.Pending, requeued, task.Info, task.Recovery, "the backoff is over: the task waits for an agent"), true
	case !d.Status.Active():
		return decision{}, false
	case d.lost:
		why := "agent_" + cmp.Or(map[string]string{"ERROR": "stale", "TERMINATED": "terminated"}[d.agentStatus], "unknown")
		if d.Status == task.Assigned && d.spawner == "pull" { // it has not begun
			return d.giveBack(why), true
		}
		return d.lose(recovered, task.Recovery, why, d.agentStatus == "ERROR" && !mass, mass, random), true
	case d.Status == task.Assigned && d.stopped:
		return d.giveBack(killSwitch), true
	case d.stopped:
		out := d.begin(task.Aborted, recovered, task.Warn, task.Recovery, "the attempt was ended: "+killSwitch)
		out.move.Error = opt(killSwitch)
		return out, true
	case d.Status == task.Assigned && d.unclaimed && (d.spawn == "" || d.spawner == "pull"):
		return d.giveBack("nobody has begun it for " + claimWithin.String()), true
	case d.Status == task.Assigned && d.unclaimed && !d.spawn.Open():
		return d.lose(recovered, task.Recovery, "spawn_failed", false, false, random), true
	case d.Status == task.Running && d.unattended:
		return d.lose(recovered, task.Recovery, "agent_unattended", false, false, random), true
	case d.Status == task.Running && d.late && d.warned && d.idle:
		out := d.lose(timedOut, task.Timeout, "timeout", true, false, random)
		if out.move.Becomes == task.Aborted && !d.raised {
			out.move.Raise = 1
		}
		return out, true
	case d.Status == task.Running && d.late && !d.warned:
		out := d.begin("", warned, task.Warn, task.Timeout, "the task is "+lateAfter.String()+" late: report progress, or the attempt ends in "+warnedFor.String())
		out.line.Was, out.line.Becomes, out.warn = nil, nil, true
		return out, true
	case d.Status == task.Running && d.silent:
		return d.lose(recovered, task.Recovery, "agent_silent", true, false, random), true
	}
	return decision{}, false
}

// killSwitch is why an attempt ends whose agent is told so by the answer to its next heartbeat.
const killSwitch = "a kill switch stops its agent"

// giveBack returns an assignment that has not begun. It spends no retry.
func (d doubt) giveBack(why string) decision {
	return d.begin(task.Pending, unclaimed, task.Info, task.Recovery, "the assignment was given back: "+why)
}

// longestPath bounds the tasks of a cycle that a message names.
const longestPath = 10

// end decides about a task that can't begin any more.
func (d doubt) end(why doomed) decision {
	if why.path == nil {
		out := d.fail(failed, task.Recovery, "dependency_failed: task "+why.on+" can't be completed")
		out.move.Error = opt("dependency_failed")
		return out
	}
	path := strings.Join(why.path[:min(len(why.path), longestPath)], " → ")
	if len(why.path) > longestPath {
		path += " → …"
	}
	out := d.fail(failed, task.DependencyCycle, "dependency_cycle: "+path)
	out.move.Error = opt("dependency_cycle")
	out.line.Details = opt(db.Encode(map[string]any{"path": why.path[:min(len(why.path), maxNamed)]}))
	return out
}
