package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// courier is the demo's agent that pulls. It works as an agent elsewhere would: over the API, with a token of
// its own. It does the demo's parcel tasks and no others. When these have ended it is terminated.
type courier struct {
	lanes    *lane.Store
	handler  http.Handler // the API of this process
	operator string       // token of the principal that registers the agent and creates its tasks
	token    string       // of the agent
	away     bool         // its last heartbeat may have said that it wants no task
	log      *slog.Logger
}

const (
	courierID  = "00000000-0000-7000-8000-0000000d1002"
	courierTag = "courier" // of its tasks, and its capability

	courierBeat  = 5  // seconds between its heartbeats at most
	courierStale = 60 // seconds of silence after which its task is taken back

	// courierFirst is the priority of its tasks: the highest, so that the agent, while it is free, is given one of
	// these and none of the user's.
	courierFirst = 10
)

// errand is a task of the courier.
type errand struct {
	title string
	after []int // the errands that this one depends on
	steps []string
}

// errands are the tasks of the courier.
var errands = []errand{
	{"Count the parcels", nil, []string{"Looks into the store", "Counts them", "Writes the number down"}},
	{"Print the labels", []int{0}, []string{"Reads the addresses", "Prints them", "Cuts them out"}},
	{"Plan the tour", []int{0}, []string{"Reads the map", "Puts the stops in order", "Checks the hours"}},
	{"Deliver the parcels", []int{1, 2}, []string{"Loads them", "Drives the tour", "Brings the receipts"}},
}

// courierPace is how long a step takes.
const courierPace = time.Second

func newCourier(lanes *lane.Store, log *slog.Logger) *courier {
	return &courier{lanes: lanes, operator: rand.Text(), away: true, log: log}
}

// verify returns the principal that registers the courier, for its token.
func (c *courier) verify(_ context.Context, token string) (auth.Principal, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(c.operator)) != 1 {
		return auth.Principal{}, auth.ErrInvalid
	}
	return auth.Principal{Workspace: workspace.Default, Kind: auth.Local, ID: "demo", Role: auth.Owner}, nil
}

// ask sends a request of the principal that registers the courier.
func (c *courier) ask(ctx context.Context, method, path string, body, into any) error {
	_, err := send(ctx, c.handler, c.operator, method, "/api/v1"+path, body, into)
	return err
}

// says sends a request of the agent itself.
func (c *courier) says(ctx context.Context, method, path string, body, into any) error {
	_, err := send(ctx, c.handler, c.token, method, "/api/v1"+path, body, into)
	return err
}

// refusedWith reports whether an error is a refusal with one of these statuses.
func refusedWith(err error, statuses ...int) bool {
	refused, is := errors.AsType[*refusedError](err)
	return is && slices.Contains(statuses, refused.Status)
}

// enter has the courier registered with its tasks, and reports whether it is to work. wanted says that it is to be
// registered if it is not there.
func (c *courier) enter(ctx context.Context, wanted bool) (there bool) {
	if !wanted && refusedWith(c.ask(ctx, http.MethodGet, "/agents/"+courierID, nil, nil), http.StatusNotFound) {
		return false
	}
	err := holdDemo(ctx, c.lanes, makePatience, func(ctx context.Context, _ *lane.Hold) (err error) {
		there, err = c.enrol(ctx, wanted)
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "the demo's courier does not work: the next start tries again", "error", err)
	}
	return err == nil && there
}

// run lets the courier work until its tasks have ended, its token is no longer valid, or ctx ends.
func (c *courier) run(ctx context.Context) {
	for ctx.Err() == nil {
		over, err := c.turn(ctx)
		switch {
		case over:
			return
		case refusedWith(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound):
			c.log.InfoContext(ctx, "courier left", "reason", "it was terminated or has a new token")
			return
		case err != nil: // the next turn tries again
			wait(ctx, courierBeat*time.Second)
		}
	}
}

// enrol registers the agent and creates its tasks, or gets a new token for it, because the former one can't be
// read again. It returns false if there is no courier.
func (c *courier) enrol(ctx context.Context, wanted bool) (bool, error) {
	var is struct{ Status, CreatedBy, Token string }
	err := c.ask(ctx, http.MethodGet, "/agents/"+courierID, nil, &is)
	switch {
	case err == nil && (is.Status == string(agent.Terminated) || is.CreatedBy != shopBy):
		return false, nil
	case refusedWith(err, http.StatusNotFound):
		if made, err := c.create(ctx, wanted); err != nil || !made {
			return false, err
		}
		body := map[string]any{
			"name": "courier", "spawner": agent.SpawnPull, "capabilities": []string{courierTag}, "maxConcurrentTasks": 1,
			"heartbeatIntervalSeconds": courierBeat, "staleThresholdSeconds": courierStale,
		}
		if err := c.ask(ctx, http.MethodPut, "/agents/"+courierID, body, &is); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	}
	if is.Token == "" {
		if err := c.ask(ctx, http.MethodPost, "/agents/"+courierID+"/token", map[string]any{}, &is); err != nil {
			return false, err
		}
	}
	c.token = is.Token
	return true, nil
}

// create creates the tasks that are not there, so that a killed start is finished by the next one. It returns
// false if they are not wanted or were archived.
func (c *courier) create(ctx context.Context, wanted bool) (bool, error) {
	there, err := c.tasks(ctx)
	if err != nil || !wanted {
		return false, err
	}
	ids := make([]string, len(errands))
	for i, e := range errands {
		if at := slices.IndexFunc(there, func(t parcel) bool { return t.Title == e.title }); at >= 0 {
			if there[at].Status == task.Archived {
				return false, nil
			}
			ids[i] = there[at].ID
			continue
		}
		on := make([]string, len(e.after))
		for n, before := range e.after {
			on[n] = ids[before]
		}
		var made parcel
		err := c.ask(ctx, http.MethodPost, "/agent-tasks", map[string]any{
			"title": e.title, "taskType": "demo", "priority": courierFirst, "dependsOn": on, "tags": []string{"demo", courierTag},
			"retryBackoffSeconds": 1, "metadata": map[string]any{"requiredCapabilities": []string{courierTag}},
		}, &made)
		if err != nil {
			return false, err
		}
		ids[i] = made.ID
	}
	return true, nil
}

// parcel is a task as the courier reads it.
type parcel struct {
	ID, Title      string
	Status         task.Status
	Cancelled      bool
	Attempt        int
	Tags           []string
	CheckpointData struct{ Step int }
}

// open reports whether the task may still be worked on.
func (p parcel) open() bool {
	switch p.Status {
	case task.Completed, task.Failed, task.Archived:
		return false
	case task.Aborted:
		return !p.Cancelled
	}
	return true
}

// tasks returns the tasks of the courier.
func (c *courier) tasks(ctx context.Context) ([]parcel, error) {
	var page struct{ Items []parcel }
	err := c.ask(ctx, http.MethodGet, "/agent-tasks?tags="+courierTag+"&limit=200", nil, &page)
	return page.Items, err
}

// turn claims a task and works on it. If none can be claimed, it says so and waits. It returns true when all
// tasks have ended, and the agent is terminated.
func (c *courier) turn(ctx context.Context) (over bool, err error) {
	all, err := c.tasks(ctx)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(all, parcel.open) {
		return true, c.leave(ctx)
	}
	var t parcel
	if slices.ContainsFunc(all, func(p parcel) bool { return p.Status == task.Pending || p.Status.Active() }) {
		if c.away {
			if _, err := c.beat(ctx, map[string]any{"status": agent.Idle}); err != nil {
				return false, err
			}
		}
		// It works on no attempt now. One that runs is of a process that has ended, and is answered again.
		if err := c.says(ctx, http.MethodPost, "/agents/"+courierID+"/claim", map[string]any{"attempts": []string{}}, &t); err != nil {
			return false, err
		}
	}
	if t.ID != "" {
		return false, c.work(ctx, t)
	}
	_, err = c.beat(ctx, map[string]any{"status": agent.Draining}) // tasks of the user are for other agents
	wait(ctx, courierBeat*time.Second)
	return false, err
}

// order tells the agent what to do.
type order struct{ Order, TaskID, Reason string }

// beat sends a heartbeat and returns the orders that answer it.
func (c *courier) beat(ctx context.Context, body map[string]any) ([]order, error) {
	var answer struct{ Orders []order }
	err := c.says(ctx, http.MethodPost, "/agents/"+courierID+"/heartbeat", body, &answer)
	if err == nil {
		c.away = body["status"] == agent.Draining
	}
	return answer.Orders, err
}

// work does the steps of a task that are left, and completes it. It stops without a report when an order or a
// refusal says that the attempt is over.
func (c *courier) work(ctx context.Context, t parcel) error {
	at := "/agent-tasks/" + t.ID
	report := func(body map[string]any) map[string]any { body["attempt"] = t.Attempt; return body }
	i := slices.IndexFunc(errands, func(e errand) bool { return e.title == t.Title })
	if i < 0 || !slices.Contains(t.Tags, courierTag) {
		return c.says(ctx, http.MethodPost, at+"/fail", report(map[string]any{
			"error": "the demo's courier only does the demo's tasks", "retryable": true,
		}), nil)
	}
	c.log.InfoContext(ctx, "courier claimed", "task", t.ID, "title", t.Title, "attempt", t.Attempt, "done", t.CheckpointData.Step)
	steps := errands[i].steps
	for n := max(t.CheckpointData.Step, 0); n < len(steps); n++ {
		percent := 100 * n / len(steps)
		orders, err := c.beat(ctx, map[string]any{
			"status": agent.Working, "currentTaskId": t.ID, "attempt": t.Attempt, "progressPercent": percent, "currentStep": steps[n],
		})
		if err != nil {
			return err
		}
		for _, o := range orders {
			switch {
			case o.TaskID != t.ID: // drain: it finishes this task, and the coordinator has no other one for it
			case o.Order == agent.OrderPause || o.Order == agent.OrderCancel:
				c.log.InfoContext(ctx, "courier stopped", "title", t.Title, "order", o.Order, "reason", o.Reason)
				return nil
			case o.Order == agent.OrderWarn:
				c.log.WarnContext(ctx, "courier is late", "title", t.Title, "reason", o.Reason)
			}
		}
		err = c.says(ctx, http.MethodPatch, at+"/progress", report(map[string]any{
			"progressPercent": percent, "currentStep": steps[n], "checkpointData": map[string]any{"step": n},
		}), nil)
		if refusedWith(err, http.StatusConflict) {
			return nil
		}
		if err != nil {
			return err
		}
		wait(ctx, courierPace)
	}
	all, err := c.tasks(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(p parcel) bool { return p.open() && p.ID != t.ID }) { // it is given no other one
		if _, err := c.beat(ctx, map[string]any{"status": agent.Draining, "currentTaskId": t.ID, "attempt": t.Attempt}); err != nil {
			return err
		}
	}
	err = c.says(ctx, http.MethodPost, at+"/complete", report(map[string]any{
		"summary": fmt.Sprintf("Demo: the courier has done its %d steps.", len(steps)), "outputResult": json.RawMessage(`{"demo": true}`),
	}), nil)
	if err == nil {
		c.log.InfoContext(ctx, "courier done", "task", t.ID, "title", t.Title)
	}
	if refusedWith(err, http.StatusConflict) {
		return nil
	}
	return err
}

// leave has the agent terminated.
func (c *courier) leave(ctx context.Context) error {
	err := c.ask(ctx, http.MethodPost, "/agents/"+courierID+"/terminate", map[string]any{"reason": "its demo tasks are done"}, nil)
	if err == nil {
		c.log.InfoContext(ctx, "courier left", "reason", "its tasks have ended")
	}
	return err
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
