package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// crew is the built coordinator, and an agent that pulls tasks through its HTTP API.
type crew struct {
	*world
	agent, token string
	units        int
}

func newCrew(t *testing.T, env ...map[string]string) *crew {
	t.Helper()
	env = append(env, map[string]string{"ADMIN_TOKEN": token, "SECRET_KEY_FILE": filepath.Join(t.TempDir(), "key")})
	c := &crew{world: newWorld(t, rig.Config{Name: "coordinator", Timeout: time.Minute, Env: rig.Env(env...)}), agent: uuid.NewString()}
	c.exec(t, `INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Default')`, string(workspace.Default), workspace.DefaultSlug)
	var made struct{ Token string }
	if a := c.ask(t, "PUT", "/agents/"+c.agent, token, "", `{"name":"puller","maxConcurrentTasks":3}`, &made); a.status != http.StatusCreated {
		t.Fatalf("register: %+v\n%s", a, ending(c.fn.Logs()))
	}
	c.token = made.Token
	return c
}

// replied is the response to a request, or that its process was killed.
type replied struct {
	status int
	body   string
	killed bool
}

// ask sends a request to the coordinator, in the form that its HTTP API passes on.
func (c *crew) ask(t *testing.T, method, path, bearer, key, body string, into any) (a replied) {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	headers := map[string]string{"authorization": "Bearer " + bearer, "content-type": "application/json"}
	if key != "" {
		headers["idempotency-key"] = key
	}
	event, err := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": "/api/v1" + path, "rawQueryString": query, "body": body, "headers": headers,
		"requestContext": map[string]any{
			"stage": "$default", "domainName": "jkl012.execute-api.eu-central-1.amazonaws.com",
			"http": map[string]string{"method": method, "path": "/api/v1" + path, "sourceIp": "198.51.100.7"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.invoke(t, event, into)
}

// invoke invokes the coordinator. The process may be killed.
func (c *crew) invoke(t *testing.T, event []byte, into any) (a replied) {
	t.Helper()
	res, err := c.fn.Invoke(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	return answered(t, res, into)
}

func answered(t *testing.T, res *rig.Result, into any) (a replied) {
	t.Helper()
	if res.Killed {
		return replied{killed: true}
	}
	if res.FunctionError != nil {
		t.Fatalf("the function failed: %v\n%s", res.FunctionError, ending(res.Logs))
	}
	var whole struct {
		StatusCode int
		Body       string
	}
	if err := json.Unmarshal(res.Payload, &whole); err != nil {
		t.Fatalf("%v in %s", err, res.Payload)
	}
	a = replied{status: whole.StatusCode, body: whole.Body}
	if into != nil && a.status < http.StatusMultipleChoices && a.status != http.StatusNoContent {
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			t.Fatalf("%v in %s", err, a.body)
		}
	}
	return a
}

// cycle invokes the coordinator by hand.
func (c *crew) cycle(t *testing.T) (busy, killed bool) {
	t.Helper()
	res, err := c.fn.Invoke(t.Context(), []byte(`{"by":"hand"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res.Killed {
		return false, true
	}
	var r struct{ Cycles, Busy int }
	if err := json.Unmarshal(res.Payload, &r); err != nil || res.FunctionError != nil || r.Cycles+r.Busy == 0 {
		t.Fatalf("%v, %v in %s\n%s", res.FunctionError, err, res.Payload, ending(res.Logs))
	}
	return r.Busy > 0, false
}

// held is a task as the agent reads it.
type held struct {
	ID      string
	Attempt int
}

// work lets the agent send a heartbeat, complete what it has, and claim and complete one more task. It
// stops once the process was killed.
func (c *crew) work(t *testing.T) (killed bool) {
	t.Helper()
	if a := c.ask(t, "POST", "/agents/"+c.agent+"/heartbeat", c.token, "", `{"status":"WORKING"}`, nil); a.killed {
		return true
	}
	var had struct{ Items []held }
	if a := c.ask(t, "GET", "/agents/"+c.agent+"/tasks?status=RUNNING", c.token, "", "", &had); a.killed {
		return true
	}
	for _, h := range had.Items {
		if c.complete(t, h) {
			return true
		}
	}
	var h held
	a := c.ask(t, "POST", "/agents/"+c.agent+"/claim", c.token, "", `{}`, &h)
	return a.killed || a.status == http.StatusOK && c.complete(t, h)
}

func (c *crew) complete(t *testing.T, h held) (killed bool) {
	t.Helper()
	a := c.ask(t, "POST", "/agent-tasks/"+h.ID+"/complete", c.token, fmt.Sprintf("done-%s-%d", h.ID, h.Attempt), fmt.Sprintf(`{"attempt":%d}`, h.Attempt), nil)
	return a.killed
}

// unit works on two tasks, of which the second depends on the first, until both are completed. Each time
// that the process is killed, the leases expire. It returns how often that was.
func (c *crew) unit(t *testing.T) (kills int) {
	t.Helper()
	c.units++
	died := func(killed bool) bool {
		if killed {
			kills++
			c.settle(t)
			c.faults.OnPoint(nil)
			c.advance(t, 10*time.Minute)
		}
		return killed
	}
	create := func(n int, on string) (id string) {
		for range 5 { // under one key: sent again, it is not done again
			var made struct{ ID string }
			body := fmt.Sprintf(`{"title":"unit %d.%d","retryBackoffSeconds":1,"maxRetries":20,"dependsOn":[%s]}`, c.units, n, on)
			a := c.ask(t, "POST", "/agent-tasks", token, fmt.Sprintf("unit-%d-%d", c.units, n), body, &made)
			if died(a.killed) || a.status == http.StatusConflict { // the first request counts as running for a while
				c.advance(t, 20*time.Minute)
				continue
			}
			if a.status != http.StatusCreated {
				t.Fatalf("create: %+v", a)
			}
			return made.ID
		}
		t.Fatal("a task could not be created")
		return ""
	}
	first := create(1, "")
	second := create(2, strconv.Quote(first))
	for range 20 {
		_, killed := c.cycle(t)
		if !died(killed) {
			died(c.work(t))
		}
		if c.count(t, `SELECT count(*) FROM agent_tasks WHERE id IN ($1, $2) AND status = 'COMPLETED'`, first, second) == 2 {
			return kills
		}
		c.advance(t, 5*time.Second)
	}
	t.Fatalf("the tasks are %v\n%s", c.texts(t, `SELECT title || ' ' || status || ' ' || attempt || ' ' || coalesce(last_error, '') FROM agent_tasks WHERE id IN ($1, $2)`, first, second),
		ending(c.fn.Logs()))
	return kills
}

// verify checks what must be true of all units, whatever was killed.
func (c *crew) verify(t *testing.T) {
	t.Helper()
	for what, sql := range map[string]string{
		"tasks that are not completed":    `SELECT count(*) FROM agent_tasks WHERE status <> 'COMPLETED'`,
		"tasks that were completed twice": `SELECT count(*) FROM (SELECT 1 FROM agent_task_logs WHERE new_status = 'COMPLETED' GROUP BY task_id HAVING count(*) > 1) x`,
		"tasks without their completion":  `SELECT count(*) FROM agent_tasks t WHERE NOT EXISTS (SELECT 1 FROM agent_task_logs l WHERE l.task_id = t.id AND l.new_status = 'COMPLETED')`,
		"attempts that never ended":       `SELECT count(*) FROM agent_task_attempts WHERE ended_at IS NULL`,
		"titles that are there twice":     `SELECT count(*) FROM (SELECT 1 FROM agent_tasks GROUP BY title HAVING count(*) > 1) x`,
		"tasks begun before what they need": `SELECT count(*) FROM agent_task_dependencies d JOIN agent_tasks o ON o.id = d.depends_on
			JOIN agent_task_attempts a ON a.task_id = d.task_id WHERE a.started_at < o.completed_at`,
	} {
		if n := c.count(t, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	if n := c.count(t, `SELECT count(*) FROM agent_tasks`); n != 2*c.units {
		t.Errorf("%d tasks of %d units", n, c.units)
	}
}

// TestKilledAtEveryPointOfTheCoordinator kills the coordinator at each fault point of a unit of work.
func TestKilledAtEveryPointOfTheCoordinator(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.unit(t)
	var points []reached
	turns := map[string]int{}
	for _, p := range c.faults.Points() {
		turns[p.Name]++
		points = append(points, reached{p.Name, turns[p.Name]})
	}
	if turns["coordinate.tended"] == 0 || turns["coordinate.assigned"] == 0 {
		t.Fatalf("the points are %v", turns)
	}
	proof := promise.Of(t, "R3", "SIGKILL of the built coordinator at every named point", "lost 0, twice 0")
	points = sample(t, points, 12)
	for _, where := range points {
		c.faults.OnPoint(at(where, rig.Kill))
		if kills := c.unit(t); kills != 1 {
			t.Errorf("%s, turn %d: killed %d times", where.name, where.turn, kills)
		}
	}
	c.verify(t)
	proof.Tell("%d points, %d tasks, lost 0, twice 0", len(points), 2*c.units)
}

// TestKilledAtRandomInstantsOfTheCoordinator kills the coordinator while it runs a cycle or serves the
// agent.
func TestKilledAtRandomInstantsOfTheCoordinator(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.unit(t)
	random := rand.New(rand.NewPCG(promise.Seed(t), 3))
	proof := promise.Of(t, "R3", "SIGKILL of the built coordinator at random instants", "lost 0, twice 0")
	kills := 0
	for want := promise.Figure(10, 500); kills < want && !t.Failed(); {
		n := strconv.Itoa(c.units)
		body := `{"title":"struck ` + n + `","retryBackoffSeconds":1,"maxRetries":20}`
		if a := c.ask(t, "POST", "/agent-tasks", token, "", body, nil); a.status != http.StatusCreated {
			t.Fatalf("create: %+v", a)
		}
		inv, err := c.fn.Begin(t.Context(), []byte(`{"by":"hand"}`))
		if err != nil {
			t.Fatal(err)
		}
		<-inv.Started()
		instant := time.NewTimer(time.Duration(random.Int64N(int64(40 * time.Millisecond))))
		<-instant.C
		if err := inv.Kill(); err != nil && !errors.Is(err, rig.ErrFinished) {
			t.Fatal(err)
		}
		res, err := inv.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if res.Killed {
			kills++
			c.settle(t)
			c.advance(t, 10*time.Minute)
		}
		c.unit(t)
		c.drain(t)
	}
	proof.Tell("%d kills, %d units, lost 0, twice 0", kills, c.units)
}

// drain works until no task is left.
func (c *crew) drain(t *testing.T) {
	t.Helper()
	for range 20 {
		if c.count(t, `SELECT count(*) FROM agent_tasks WHERE status <> 'COMPLETED'`) == 0 {
			return
		}
		c.cycle(t)
		c.work(t)
		c.advance(t, 5*time.Second)
	}
	t.Errorf("there are left %v", c.texts(t, `SELECT title || ' ' || status || ' ' || attempt || ' ' || coalesce(last_error, '') FROM agent_tasks WHERE status <> 'COMPLETED'`))
}

// TestAKilledCycleFreesItsLane (R5): the lane of a killed coordinator is free when its lease is over, and
// not before.
func TestAKilledCycleFreesItsLane(t *testing.T) {
	c := newCrew(t)
	c.unit(t)
	proof := promise.Of(t, "R5", "SIGKILL of the built coordinator in a cycle", "free at TTL + 1 s, never before TTL")
	kills := promise.Figure(5, 100)
	for n := range kills {
		c.faults.OnPoint(at(reached{[]string{"coordinate.tended", "coordinate.assigned"}[n%2], 1}, rig.Kill))
		if _, killed := c.cycle(t); !killed {
			t.Fatal("it was not killed")
		}
		c.settle(t)
		c.faults.OnPoint(nil)
		const lease = `SELECT ceil(extract(epoch FROM expires_at - lk_now()) * 1000)::int FROM agent_locks WHERE lane = 'coordinator' AND token IS NOT NULL`
		left := time.Duration(c.count(t, lease)) * time.Millisecond
		c.advance(t, left-3*time.Second)
		rest, begun := time.Duration(c.count(t, lease))*time.Millisecond, time.Now()
		if busy, _ := c.cycle(t); !busy {
			if took := time.Since(begun); took < rest {
				t.Fatalf("the lane was free %s before its lease was over", rest-took)
			}
			continue // the invocation took longer than the rest of the lease
		}
		c.advance(t, max(0, time.Duration(c.count(t, lease))*time.Millisecond)+time.Second)
		if busy, _ := c.cycle(t); busy {
			t.Fatal("the lane was held 1 s after its lease")
		}
	}
	c.unit(t)
	c.verify(t)
	proof.Tell("%d kills, free at TTL + 1 s, never before TTL", kills)
}
