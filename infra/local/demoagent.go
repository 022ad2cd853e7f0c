package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/app/seed"
)

// demoAgent is an agent like one on another machine: it knows an address and its own token, and pulls
// tasks over HTTP. It only pretends to work, and says so in each result.
type demoAgent struct {
	url    string
	admin  string // registers the agent and has a token made for it
	token  string
	log    *slog.Logger
	client *http.Client
	pause  time.Duration // of a step of work, and before something is tried again
	idle   time.Duration // between two questions for work, while there is none
	taken  bool          // it has looked for tasks that it had before
}

const (
	demoAgentName  = "demo-agent"
	demoAgentPause = 2 * time.Second
	demoAgentIdle  = 5 * time.Second
	demoAgentBeat  = 10 // seconds
	demoSteps      = 3
)

// demoTask is a task as the demo agent reads it.
type demoTask struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Attempt int    `json:"attempt"`
}

func newDemoAgent(url, admin string, log *slog.Logger) *demoAgent {
	return &demoAgent{
		url: url, admin: admin, log: log, client: &http.Client{Timeout: 30 * time.Second},
		pause: demoAgentPause, idle: demoAgentIdle,
	}
}

// errNotWanted says that nobody wants the demo agent here.
var errNotWanted = errors.New("there is no demo agent here")

// run works until ctx ends, or until the agent is terminated. What goes wrong is logged, and tried
// again. If fresh is false, the agent works only where it was registered before.
func (a *demoAgent) run(ctx context.Context, fresh bool) {
	defer a.client.CloseIdleConnections()
	for signedIn, before := false, false; ctx.Err() == nil; {
		var err error
		worked := true
		if !signedIn {
			err = a.signIn(ctx, fresh)
			signedIn = err == nil
			before = before || signedIn
		} else {
			worked, err = a.work(ctx)
		}
		switch {
		case errors.Is(err, errNotWanted):
			if before {
				a.log.InfoContext(ctx, "the demo agent was terminated: it ends")
			}
			return
		case signedIn && disowned(err):
			signedIn, a.taken = false, false
			wait(ctx, a.pause)
		case err != nil && ctx.Err() == nil:
			a.log.WarnContext(ctx, "the demo agent tries again", "error", err)
			a.taken = false
			wait(ctx, a.pause)
		case !worked:
			wait(ctx, a.idle)
		}
	}
}

// disowned reports whether the API refused the agent itself: its token is not valid any more, or it was
// terminated.
func disowned(err error) bool {
	refused, ok := errors.AsType[*demoRefusal](err)
	return ok && (refused.status == http.StatusUnauthorized || refused.status == http.StatusNotFound || refused.status == http.StatusConflict)
}

// demoRefusal is an answer of the API with a status of 300 or more.
type demoRefusal struct {
	status int
	said   string
}

func (e *demoRefusal) Error() string { return e.said }

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// signIn registers the agent, and gets a token for it.
func (a *demoAgent) signIn(ctx context.Context, fresh bool) error {
	var made struct {
		Token  string `json:"token"`
		Status string `json:"status"`
	}
	path := "/api/v1/agents/" + seed.DemoAgent
	status, err := a.ask(ctx, a.admin, http.MethodGet, path, nil, &made)
	switch {
	case status == http.StatusNotFound && !fresh, err == nil && made.Status == "TERMINATED":
		return errNotWanted
	case err != nil && status != http.StatusNotFound:
		return err
	}
	body := map[string]any{"name": demoAgentName, "capabilities": []string{seed.DemoCapability}, "heartbeatIntervalSeconds": demoAgentBeat,
		"staleThresholdSeconds": 6 * demoAgentBeat}
	if _, err := a.ask(ctx, a.admin, http.MethodPut, path, body, &made); err != nil {
		return err
	}
	if made.Token == "" { // it was registered before
		if _, err := a.ask(ctx, a.admin, http.MethodPost, path+"/token", map[string]any{}, &made); err != nil {
			return err
		}
	}
	a.token = made.Token
	a.log.InfoContext(ctx, "the demo agent is there", "agent", demoAgentName)
	return nil
}

// work beats, and does one task if there is one: one that it had before, or a new one. It returns false if
// there is none.
func (a *demoAgent) work(ctx context.Context) (worked bool, err error) {
	if _, err := a.beat(ctx, nil, 0); err != nil {
		return false, err
	}
	if !a.taken { // it was cut off before
		var had struct {
			Items []demoTask `json:"items"`
		}
		if _, err := a.ask(ctx, a.token, http.MethodGet, "/api/v1/agents/"+seed.DemoAgent+"/tasks?status=RUNNING", nil, &had); err != nil {
			return false, err
		}
		if len(had.Items) > 0 {
			return true, a.do(ctx, had.Items[0])
		}
		a.taken = true
	}
	var t demoTask
	status, err := a.ask(ctx, a.token, http.MethodPost, "/api/v1/agents/"+seed.DemoAgent+"/claim", map[string]any{}, &t)
	if err != nil || status == http.StatusNoContent {
		return false, err
	}
	a.log.InfoContext(ctx, "the demo agent has claimed a task", "title", t.Title, "task", t.ID, "attempt", t.Attempt)
	return true, a.do(ctx, t)
}

// do pretends to do a task. It stops when it is ordered to.
func (a *demoAgent) do(ctx context.Context, t demoTask) error {
	for step := 1; step < demoSteps; step++ {
		wait(ctx, a.pause)
		orders, err := a.beat(ctx, &t, 100*step/demoSteps)
		if err != nil {
			return err
		}
		if orders != "" && orders != "continue" && orders != "warn" {
			a.log.InfoContext(ctx, "the demo agent was ordered to stop", "title", t.Title, "order", orders)
			return nil
		}
	}
	status, err := a.ask(ctx, a.token, http.MethodPost, "/api/v1/agent-tasks/"+t.ID+"/complete", map[string]any{
		"attempt": t.Attempt, "summary": "Demo: nothing was really done.", "outputResult": map[string]any{"demo": true},
	}, nil)
	if status == http.StatusConflict { // it is another's by now, or cancelled
		a.log.InfoContext(ctx, "the demo agent was ordered to stop", "title", t.Title, "order", "cancel")
		return nil
	}
	if err == nil {
		a.log.InfoContext(ctx, "the demo agent has finished a task", "title", t.Title, "task", t.ID)
	}
	return err
}

// beat sends a heartbeat and returns the order for the task, if there is one.
func (a *demoAgent) beat(ctx context.Context, t *demoTask, percent int) (order string, err error) {
	body := map[string]any{"status": "IDLE"}
	if t != nil {
		body = map[string]any{
			"status": "WORKING", "currentTaskId": t.ID, "attempt": t.Attempt,
			"progressPercent": percent, "currentStep": "pretending",
		}
	}
	var answer struct {
		Orders []struct {
			Order  string `json:"order"`
			TaskID string `json:"taskId"`
		} `json:"orders"`
	}
	if _, err := a.ask(ctx, a.token, http.MethodPost, "/api/v1/agents/"+seed.DemoAgent+"/heartbeat", body, &answer); err != nil {
		return "", err
	}
	for _, o := range answer.Orders {
		if t != nil && o.TaskID == t.ID {
			order = o.Order
		}
	}
	return order, nil
}

// ask sends a request to the API, and decodes the answer. A status of 300 or more is a [demoRefusal].
func (a *demoAgent) ask(ctx context.Context, token, method, path string, body, into any) (status int, err error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		content = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, content)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		var p struct{ Detail string }
		_ = json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&p) // the status says enough
		return answer.StatusCode, &demoRefusal{answer.StatusCode, fmt.Sprintf("%s %s: %d %s", method, path, answer.StatusCode, p.Detail)}
	}
	if into == nil || answer.StatusCode == http.StatusNoContent {
		return answer.StatusCode, nil
	}
	return answer.StatusCode, json.NewDecoder(answer.Body).Decode(into)
}
