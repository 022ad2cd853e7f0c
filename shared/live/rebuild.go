package live

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// ErrDown means that the Redis was not asked, because it could not be reached lately.
var ErrDown = errors.New("the live view can't be reached")

// A Mirror shows the live view. Package live/valkey implements it. It logs its own errors.
type Mirror interface {
	Results
	// Position returns up to where news was published. There is none in a new Redis.
	Position(ctx context.Context, ws db.Workspace) (at Position, there bool, err error)
	// Publish replaces the keys of a workspace, publishes news and stores the position after it.
	Publish(ctx context.Context, ws db.Workspace, v View, n News) error
	// Beat shows a heartbeat that came just now.
	Beat(ctx context.Context, b Heartbeat) error
}

// Heartbeat is what is shown of a heartbeat at once.
type Heartbeat struct {
	Agent  string
	Status agent.Status
	Task   string // empty: none
}

// Position is up to where news was published.
type Position struct {
	Events   string    // a cursor of events
	Commands time.Time // when the last one was carried out
}

// News is what happened between two cycles.
type News struct {
	Tasks, Agents []event.Event
	Commands      []CommandDone
	After         Position
}

// A Rebuilder keeps the live view up to date. A nil one does nothing: there is no live view.
type Rebuilder struct {
	From   *Database
	Events *event.Store
	To     Mirror
	Log    *slog.Logger
}

// newsKinds are the kinds of events that are published.
var newsKinds = []string{
	"task.created", "task.status_changed", "task.dependency_cycle", "agent.registered", "agent.status_changed", "agent.stale",
}

const (
	pageOfEvents = 500
	maxPages     = 4
)

// Rebuild publishes the view of a workspace as it is now, and the news since the last time. It is called
// after each cycle of the coordinator. An error is no caller's concern: the next cycle tries again.
func (r *Rebuilder) Rebuild(ctx context.Context, ws db.Workspace) {
	if r == nil {
		return
	}
	if err := r.rebuild(ctx, ws); err != nil && !errors.Is(err, ErrDown) && ctx.Err() == nil {
		r.Log.DebugContext(ctx, "the live view was not rebuilt", "error", err)
	}
}

func (r *Rebuilder) rebuild(ctx context.Context, ws db.Workspace) error {
	at, there, err := r.To.Position(ctx, ws) // first: a Redis that is away costs no statement
	if err != nil {
		return err
	}
	n := News{After: at}
	if err := r.read(ctx, ws, at, there, &n); err != nil {
		return err
	}
	if !there {
		at.Commands = db.EndOfTime // of what was before, nobody is told
	}
	v, done, err := r.From.View(ctx, ws, at.Commands)
	if err != nil {
		return err
	}
	n.Commands = done
	switch {
	case len(done) > 0:
		n.After.Commands = done[len(done)-1].DoneAt
	case !there:
		n.After.Commands = v.Now
	}
	if err := r.To.Publish(ctx, ws, v, n); err != nil {
		return err
	}
	return r.results(ctx, ws, n.Tasks, v.ResultTTL)
}

// maxResults is of how many tasks that were completed since the last time the results are shown.
const maxResults = 50

// results shows the results of the tasks that were completed last, in one statement of the database: who
// completed them may not reach the live view, as the function of the built-in worker. From then on they are kept for ttl.
func (r *Rebuilder) results(ctx context.Context, ws db.Workspace, news []event.Event, ttl time.Duration) error {
	var ids []string
	for _, e := range slices.Backward(news) {
		var is struct{ Status task.Status }
		if e.Kind == "task.status_changed" && json.Unmarshal(e.Data, &is) == nil && is.Status == task.Completed && len(ids) < maxResults {
			ids = append(ids, e.Subject)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	done, err := r.From.completed(ctx, ws, ids)
	for _, t := range done {
		if t.Attempt > 0 {
			r.show(ctx, ws, t, ttl)
		}
	}
	return err
}

// read reads the events after a position.
func (r *Rebuilder) read(ctx context.Context, ws db.Workspace, at Position, there bool, n *News) error {
	cursor, err := event.ParseCursor(at.Events)
	if !there || err != nil {
		cursor, err = r.Events.Now(ctx, ws)
		n.After.Events = cursor.String()
		return err
	}
	for range maxPages {
		found, next, err := r.Events.Read(ctx, ws, cursor, newsKinds, pageOfEvents)
		if err != nil && !errors.Is(err, event.ErrReset) {
			return err
		}
		for _, e := range found {
			switch {
			case strings.HasPrefix(e.Kind, "task."):
				n.Tasks = append(n.Tasks, e)
			case strings.HasPrefix(e.Kind, "agent."):
				n.Agents = append(n.Agents, e)
			}
		}
		cursor = next
		if len(found) < pageOfEvents {
			break
		}
	}
	n.After.Events = cursor.String()
	return nil
}

// Ended shows the result of an attempt that was completed, at once. The task's row has it already. How long the workspace
// keeps results, the next cycle knows.
func (r *Rebuilder) Ended(ctx context.Context, ws db.Workspace, t task.Task) {
	if r != nil && t.Status == task.Completed && t.Attempt > 0 {
		r.show(ctx, ws, t, ResultTTL)
	}
}

func (r *Rebuilder) show(ctx context.Context, ws db.Workspace, t task.Task, ttl time.Duration) {
	result := t.Output
	if len(result) == 0 {
		result = []byte("null")
	}
	_ = r.To.SetResult(ctx, ws, Attempt{t.ID, t.Attempt}, result, ttl) // the mirror logs its errors; the row has it
}

// Heard shows a heartbeat that was stored, at once.
func (r *Rebuilder) Heard(ctx context.Context, beat agent.Beat) {
	if r == nil {
		return
	}
	status := beat.Says
	switch {
	case status == "" && beat.Task != "":
		status = agent.Working
	case status == "":
		status = agent.Idle
	}
	_ = r.To.Beat(ctx, Heartbeat{beat.Agent, status, beat.Task}) // the mirror logs its errors; the next cycle shows it
}
