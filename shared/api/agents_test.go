package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

const agentsPath = "/api/v1/agents"

// attempts are the statements by which the tests begin attempts.
type attempts struct{ Assign, Attempt, Start, Attempts, AddThread, EditLog, ClearLog, Remove, AllEdges, Happened, AddTask, AddEdge db.Query }

// claim stands for the coordinator: it gives an agent the oldest task that waits, whatever the agent
// can do.
func claim(ctx context.Context, d api.Deps, ws db.Workspace, agent string) (task.Task, bool, error) {
	var q attempts
	if err := db.Load(os.DirFS("../task/testdata"), &q); err != nil {
		return task.Task{}, false, err
	}
	found, err := d.Tasks.List(ctx, ws, task.Filter{Status: task.Pending, Order: task.Oldest, Limit: 1})
	if err != nil || len(found) == 0 {
		return task.Task{}, false, err
	}
	var b db.Batch
	b.Exec(q.Assign, found[0].ID, agent)
	b.Exec(q.Attempt, found[0].ID)
	b.Exec(q.Start, found[0].ID)
	if err := d.DB.Do(ctx, ws, &b); err != nil {
		return task.Task{}, false, err
	}
	t, err := d.Tasks.Get(ctx, ws, found[0].ID)
	return t, err == nil, err
}

// agentTold is what the tests read of an agent.
type agentTold struct {
	ID, Name, Model, Status, Spawner, Token, Health, CurrentTaskID, TerminationReason string
	Capabilities                                                                      []string
	CoordinatorEnabled                                                                bool
	MaxConcurrentTasks, OpenTasks, HeartbeatIntervalSeconds, StaleThresholdSeconds    int
	ProgressPercent                                                                   *int
	LastSeenAt                                                                        *time.Time
}

type ordersTold struct {
	Orders []struct {
		Order, TaskID, Reason string
		Attempt               int
	}
}

// orders is a heartbeat's answer in one line.
func (o ordersTold) String() string {
	var all []string
	for _, one := range o.Orders {
		all = append(all, one.Order)
	}
	return strings.Join(all, " ")
}

// asked sends a request with a token, and decodes its answer.
func (w *world) asked(t testing.TB, status int, method, path, token, body string, into any) result {
	t.Helper()
	got := w.call(t, method, path, token, body)
	if got.status != status {
		t.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, got.status, status, got.body)
	}
	if into != nil {
		if err := json.Unmarshal(got.body, into); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// TestAnAgentByHTTP tells the life of an agent, from its registration to its end.
func TestAnAgentByHTTP(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		id := ids()
		path := agentsPath + "/" + id
		var is agentTold
		got := g.must(t, 201, http.MethodPut, agentsPath+"/"+strings.ToUpper(id), `{"name":"builder","capabilities":["go","go","a"]}`, &is)
		if is.ID != id || is.Status != "IDLE" || !slices.Equal(is.Capabilities, []string{"a", "go"}) || !is.CoordinatorEnabled || is.Spawner != "pull" ||
			is.MaxConcurrentTasks != 1 || is.HeartbeatIntervalSeconds != 30 || is.StaleThresholdSeconds != 180 || is.Token == "" ||
			got.header.Get("Location") != path || got.header.Get("ETag") == "" {
			t.Fatalf("registered %+v, %v", is, got.header)
		}
		token := is.Token
		is = agentTold{}
		g.must(t, 200, http.MethodPut, path, `{"name":"builder","model":"m-1","coordinatorEnabled":false,"maxConcurrentTasks":2,"spawner":"http","spawnerTarget":"x"}`, &is)
		if is.Token != "" || is.CoordinatorEnabled || is.MaxConcurrentTasks != 2 || is.Spawner != "http" {
			t.Errorf("registered again %+v", is)
		}
		for _, c := range []struct {
			path, tag string
			want      int
		}{{path, got.header.Get("ETag"), 412}, {path, `"2"`, 200}, {path, "*", 200}, {agentsPath + "/" + ids(), "*", 412}} {
			again := g.callWith(t, http.MethodPut, c.path, owner, `{"name":"builder","model":"m-1","coordinatorEnabled":false,"maxConcurrentTasks":2,
				"spawner":"http","spawnerTarget":"x"}`, "If-Match", c.tag)
			if again.status != c.want {
				t.Errorf("PUT %s with If-Match %s: %d %s", c.path, c.tag, again.status, again.body)
			}
		}
		var first, second taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"one"}`, &first)
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"two"}`, &second)
		var given struct {
			taskTold
			Model string
		}
		g.asked(t, 200, http.MethodPost, path+"/claim", token, "", &given)
		if given.ID != first.ID || given.Status != "RUNNING" || given.Attempt != 1 || given.Model != "m-1" {
			t.Fatalf("claimed %+v", given)
		}
		var told ordersTold
		g.asked(t, 200, http.MethodPost, path+"/heartbeat", token,
			`{"status":"WORKING","currentTaskId":"`+strings.ToUpper(first.ID)+`","attempt":1,"progressPercent":5,"currentStep":"reads","memoryMb":12.5,"cpuPercent":80}`, &told)
		if told.String() != "continue" || told.Orders[0].TaskID != first.ID || told.Orders[0].Attempt != 1 {
			t.Errorf("orders: %+v", told)
		}
		g.must(t, 200, http.MethodGet, path, "", &is)
		if is.Status != "WORKING" || is.Health != "healthy" || is.CurrentTaskID != first.ID || *is.ProgressPercent != 5 || is.OpenTasks != 1 || is.LastSeenAt == nil {
			t.Errorf("after a heartbeat %+v", is)
		}
		var health struct {
			Health     string
			SilentMS   int64
			Heartbeats []struct{ Status, CurrentStep string }
		}
		if g.must(t, 200, http.MethodGet, path+"/health", "", &health); health.Health != "healthy" || len(health.Heartbeats) != 1 ||
			health.Heartbeats[0].Status != "WORKING" || health.Heartbeats[0].CurrentStep != "reads" {
			t.Errorf("its health: %+v", health)
		}
		g.asked(t, 200, http.MethodPatch, agentTasks+"/"+first.ID+"/progress", token, `{"attempt":1,"progressPercent":50,"checkpointData":{"at":3}}`, nil)
		g.asked(t, 200, http.MethodGet, agentTasks+"/"+first.ID, token, "", &given)
		if given.ProgressPercent != 50 || string(given.CheckpointData) != `{"at":3}` {
			t.Errorf("its own task: %+v", given)
		}
		g.asked(t, 404, http.MethodGet, agentTasks+"/"+second.ID, token, "", nil)
		g.asked(t, 404, http.MethodPost, agentTasks+"/"+second.ID+"/complete", token, `{"attempt":1}`, nil)
		mine := func(token string) []string {
			var list struct{ Items []taskTold }
			g.asked(t, 200, http.MethodGet, path+"/tasks?status=RUNNING", token, "", &list)
			var all []string
			for _, one := range list.Items {
				all = append(all, one.ID)
			}
			return all
		}
		if !slices.Equal(mine(token), []string{first.ID}) || !slices.Equal(mine(member), []string{first.ID}) {
			t.Errorf("its tasks: %q", mine(token))
		}
		g.asked(t, 200, http.MethodPost, agentTasks+"/"+first.ID+"/complete", token, `{"summary":"done"}`, &given) // the present attempt is its own
		if given.Status != "COMPLETED" || given.Summary != "done" {
			t.Errorf("completed %+v", given)
		}
		g.asked(t, 200, http.MethodPost, path+"/claim", token, "{}", &given)
		for query, want := range map[string][]string{
			"?status=WORKING&coordinatorEnabled=false&limit=1": {id}, "?coordinatorEnabled=true": nil, "?capability=go": nil, "?status=TERMINATED": {terminated},
			"?limit=1": {id, terminated, working},
		} {
			if got := listed(t, g.world, agentsPath+query, func(a agentTold) string { return a.ID }); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		var rotated struct{ Token string }
		g.must(t, 200, http.MethodPost, path+"/token", `{}`, &rotated)
		g.asked(t, 401, http.MethodPost, path+"/heartbeat", token, `{}`, nil)
		token = rotated.Token
		g.must(t, 200, http.MethodPost, path+"/terminate", `{"reason":"tired"}`, &is)
		if is.Status != "DRAINING" || is.TerminationReason != "tired" {
			t.Errorf("drains: %+v", is)
		}
		if g.asked(t, 200, http.MethodPost, path+"/heartbeat", token, `{}`, &told); told.String() != "drain continue" || told.Orders[0].Reason != "tired" {
			t.Errorf("orders: %+v", told)
		}
		g.asked(t, 200, http.MethodPost, agentTasks+"/"+second.ID+"/fail", token, `{"attempt":1,"error":"it broke"}`, &given)
		if given.Status != "ABORTED" || given.NextAttemptAt == nil {
			t.Errorf("failed: %+v", given)
		}
		g.asked(t, 401, http.MethodPost, path+"/heartbeat", token, `{}`, nil) // it has drained
		if g.must(t, 200, http.MethodGet, path, "", &is); is.Status != "TERMINATED" {
			t.Errorf("has drained: %+v", is)
		}
		var p refusedTask
		if g.must(t, 409, http.MethodPut, path, `{"name":"again"}`, &p); p.Code != "agent_status" || p.PresentStatus != "TERMINATED" {
			t.Errorf("registered after its end: %+v", p)
		}
		g.must(t, 409, http.MethodPost, path+"/token", `{}`, nil)
		g.must(t, 409, http.MethodPost, path+"/heartbeat", `{}`, nil)
		g.must(t, 409, http.MethodPost, path+"/claim", `{}`, nil)
	})
}

// TestAReportOnAnOldAttemptIsAnOrderToStop: whoever lost a task can't change it, whatever attempt it
// names.
func TestAReportOnAnOldAttemptIsAnOrderToStop(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		other := ids()
		g.registered(t, g.Workspace, other)
		token, others := minted(t, g.agents, g.Workspace, working, 2), minted(t, g.agents, g.Workspace, other, 2)
		var is taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"one","retryBackoffSeconds":1}`, &is)
		g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/claim", token, "", nil)
		at := agentTasks + "/" + is.ID
		reports := []struct{ method, path, body string }{
			{http.MethodPatch, at + "/progress", `"progressPercent":10`}, {http.MethodPost, at + "/fail", `"error":"x"`}, {http.MethodPost, at + "/complete", `"summary":"x"`},
			{http.MethodPost, at + "/usage", `"inputTokens":1,"outputTokens":1,"model":"demo"`},
		}
		refused := func(when string, token string, attempts ...string) {
			t.Helper()
			for _, r := range reports {
				for _, attempt := range attempts {
					body := "{" + attempt + r.body + "}"
					p := refusedTask{}
					if g.asked(t, 409, r.method, r.path, token, body, &p); p.Code != "stale_attempt" || p.Order != "cancel" {
						t.Errorf("%s: %s %s: %+v", when, r.path, body, p)
					}
				}
			}
		}
		g.must(t, 200, http.MethodPatch, at, `{"status":"PAUSED"}`, nil)
		refused("paused", token, "", `"attempt":1,`, `"attempt":2,`)
		var told ordersTold
		if g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/heartbeat", token, `{"currentTaskId":"`+is.ID+`","attempt":1}`, &told); told.String() != "pause" {
			t.Errorf("orders: %+v", told)
		}
		g.must(t, 200, http.MethodPatch, at, `{"status":"PENDING"}`, nil)
		refused("resumed", token, "", `"attempt":1,`)
		g.asked(t, 200, http.MethodPost, agentsPath+"/"+other+"/claim", others, "", &is)
		if is.Attempt != 2 {
			t.Fatalf("claimed %+v", is)
		}
		refused("another agent has it", token, "", `"attempt":1,`, `"attempt":2,`)
		if g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/heartbeat", token, `{"currentTaskId":"`+is.ID+`"}`, &told); told.String() != "cancel" {
			t.Errorf("orders: %+v", told)
		}
		refused("the new one names the old attempt", others, `"attempt":1,`)
		g.asked(t, 200, http.MethodPatch, at+"/progress", others, `{"attempt":2,"progressPercent":10}`, &is)
		g.asked(t, 200, http.MethodPost, at+"/complete", others, `{"attempt":2}`, &is)
		if is.Status != "COMPLETED" {
			t.Errorf("completed %+v", is)
		}
		refused("it is done", others, "", `"attempt":2,`)
	})
}

// TestAHardTerminationGivesTheTasksToOthers at once, and its token is no longer valid.
func TestAHardTerminationGivesTheTasksToOthers(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		token := minted(t, g.agents, g.Workspace, working, 2)
		var runs, spent, waits taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"runs"}`, &runs)
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"has no retries","maxRetries":0}`, &spent)
		for range 2 {
			g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/claim", token, "", nil)
		}
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"waits"}`, &waits)
		var q attempts
		dbtest.Load(t, "../task/testdata", &q)
		var b db.Batch
		b.Exec(q.Assign, waits.ID, working)
		b.Exec(q.Attempt, waits.ID)
		if err := g.Env.DB.Do(t.Context(), g.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		wakes := 0
		g.Tasks.Wake = func(context.Context, *db.Batch) { wakes++ }
		var is agentTold
		g.must(t, 200, http.MethodPost, agentsPath+"/"+working+"/terminate", `{"reason":"lost","graceful":false}`, &is)
		if wakes != 1 {
			t.Errorf("the coordinator is woken %d times, want once", wakes)
		}
		if is.Status != "TERMINATED" || is.OpenTasks != 0 {
			t.Errorf("terminated %+v", is)
		}
		g.asked(t, 401, http.MethodPost, agentsPath+"/"+working+"/heartbeat", token, `{}`, nil)
		for _, c := range []struct {
			id, status string
			retries    int
		}{{runs.ID, "ABORTED", 1}, {spent.ID, "FAILED", 0}, {waits.ID, "PENDING", 0}} {
			var now struct {
				taskTold
				AgentID string
			}
			if g.must(t, 200, http.MethodGet, agentTasks+"/"+c.id, "", &now); now.Status != c.status || now.RetryCount != c.retries || now.AgentID != "" {
				t.Errorf("%+v, want %s", now, c.status)
			}
			told := listed(t, g.world, agentTasks+"/"+c.id+"/logs?event=task_recovery", func(l struct{ Message string }) string { return l.Message })
			if !slices.Equal(told, []string{"its agent was terminated"}) {
				t.Errorf("the log of %s tells %q", c.status, told)
			}
		}
		if g.must(t, 200, http.MethodGet, agentsPath+"/"+working, "", &is); is.OpenTasks != 0 {
			t.Errorf("it still has %d tasks", is.OpenTasks)
		}
	})
}

// TestAClaimGivesTheClearValues, and nothing else does. A task that names a secret which is not there
// fails, and the next one is given.
func TestAClaimGivesTheClearValues(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		token := minted(t, g.agents, g.Workspace, working, 2)
		path := agentsPath + "/" + working
		g.must(t, 201, http.MethodPost, "/api/v1/secrets", `{"name":"k","value":"sesame-sesame"}`, nil)
		var broken, is taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"broken","inputContext":{"key":{"$secret":"none"}}}`, &broken)
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"whole","inputContext":{"key":{"$secret":"k"}}}`, nil)
		g.asked(t, 200, http.MethodPost, path+"/claim", token, "", &is)
		if string(is.InputContext) != `{"key":"sesame-sesame"}` {
			t.Errorf("claimed with %s", is.InputContext)
		}
		id, known := is.ID, `{"attempts":[{"taskId":"`+strings.ToUpper(is.ID)+`","attempt":1}]}`
		g.asked(t, 200, http.MethodGet, agentTasks+"/"+id, token, "", &is)
		if string(is.InputContext) != `{"key":{"$secret":"k"}}` {
			t.Errorf("read with %s", is.InputContext)
		}
		if g.must(t, 200, http.MethodGet, agentTasks+"/"+broken.ID, "", &broken); broken.Status != "FAILED" || !strings.Contains(broken.LastError, "none") {
			t.Errorf("the broken one: %+v", broken)
		}
		g.asked(t, 204, http.MethodPost, path+"/claim", token, "", nil)
		g.asked(t, 204, http.MethodPost, path+"/claim", token, known, nil)
		// The answer was lost: the agent says that it works on nothing.
		is = taskTold{}
		if g.asked(t, 200, http.MethodPost, path+"/claim", token, `{"attempts":[]}`, &is); is.ID != id || is.Attempt != 1 || string(is.InputContext) != `{"key":"sesame-sesame"}` {
			t.Errorf("claimed again: %+v", is)
		}
		got := g.callWith(t, http.MethodPost, path+"/claim", token, `{"attempts":[]}`, "Idempotency-Key", "k")
		if again := g.callWith(t, http.MethodPost, path+"/claim", token, `{"attempts":[]}`, "Idempotency-Key", "k"); got.status != 200 || again.status != 409 ||
			strings.Contains(string(again.body), "sesame") {
			t.Errorf("with a key: %d, then %d %s", got.status, again.status, again.body)
		}
	})
}

// TestSecretsOfATaskAreItsAgentsAlone: what stands in a task's input under the name of a secret is
// encrypted, shown to nobody, and given to the agent that claims the task.
func TestSecretsOfATaskAreItsAgentsAlone(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		token := minted(t, g.agents, g.Workspace, working, 2)
		const given = `{"n":1,"password":"hunter2","steps":[{"apiToken":"xyzzy"}]}`
		const shown = `{"n":1,"password":"[redacted]","steps":[{"apiToken":"[redacted]"}]}`
		var is taskTold
		g.must(t, 201, http.MethodPost, agentTasks, `{"title":"whole","inputContext":`+given+`}`, &is)
		if string(is.InputContext) != shown {
			t.Errorf("created with %s", is.InputContext)
		}
		for _, by := range []string{owner, member} {
			if g.asked(t, 200, http.MethodGet, agentTasks+"/"+is.ID, by, "", &is); string(is.InputContext) != shown {
				t.Errorf("%.10s is shown %s", by, is.InputContext)
			}
		}
		if g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/claim", token, "", &is); string(is.InputContext) != given {
			t.Errorf("claimed with %s", is.InputContext)
		}
		if g.asked(t, 200, http.MethodGet, agentTasks+"/"+is.ID, token, "", &is); string(is.InputContext) != shown {
			t.Errorf("the agent reads %s", is.InputContext)
		}
		var q struct{ Stored db.Query }
		err := db.Load(fstest.MapFS{"t.sql": {Data: []byte(`
-- name: Stored
SELECT input_context, sealed_input FROM agent_tasks WHERE workspace_id = $1 AND id = $2;
`)}}, &q)
		if err != nil {
			t.Fatal(err)
		}
		var stored string
		var sealed []byte
		if err := e.DB.One(t.Context(), e.Workspace, []any{&stored, &sealed}, q.Stored, is.ID); err != nil {
			t.Fatal(err)
		}
		if stored != shown || len(sealed) == 0 || bytes.Contains(sealed, []byte("hunter2")) {
			t.Errorf("stored are %s and %d bytes", stored, len(sealed))
		}
	})
}

// TestOnlyAClaimTellsSensitiveInput: the values of sensitive names are for the agent of the attempt alone.
func TestOnlyAClaimTellsSensitiveInput(t *testing.T) {
	g := newGate(t, dbtest.New(t, dbtest.OnSQLite))
	token := minted(t, g.agents, g.Workspace, working, 2)
	const hidden, clear = `{"dbPassword":"[redacted]","rows":7}`, `{"dbPassword":"blue-horse-99","rows":7}`
	var is struct {
		ID           string
		InputContext json.RawMessage
	}
	expect := func(what, want string) {
		t.Helper()
		if string(is.InputContext) != want {
			t.Errorf("%s answers %s", what, is.InputContext)
		}
	}
	g.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","inputContext":`+clear+`}`, &is)
	expect("creating", hidden)
	g.must(t, 200, http.MethodGet, agentTasks+"/"+is.ID, "", &is)
	expect("reading", hidden)
	g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/claim", token, "", &is)
	expect("the claim", clear)
	g.asked(t, 200, http.MethodGet, agentTasks+"/"+is.ID, token, "", &is)
	expect("reading as the agent", hidden)
	g.asked(t, 200, http.MethodPost, agentTasks+"/"+is.ID+"/complete", token, `{"attempt":1}`, &is)
	expect("completing", hidden)
}

// TestAClaimThatIsNotAnsweredIsGivenBack: nobody works on its attempt, and it spends no retry.
func TestAClaimThatIsNotAnsweredIsGivenBack(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newWorld(t, e, func(d *api.Deps) {
			keyless, err := secret.New(e.DB, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole := d.Secrets
			d.Secrets = keyless
			if _, err := whole.Put(t.Context(), e.Workspace, "k", secret.NewValue("sesame-sesame"), "user:ada"); err != nil {
				t.Fatal(err)
			}
		})
		w.must(t, 201, http.MethodPut, agentsPath+"/"+working, `{"name":"scout"}`, nil)
		var is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","maxRetries":0,"inputContext":{"key":{"$secret":"k"}}}`, &is)
		if got := w.call(t, http.MethodPost, agentsPath+"/"+working+"/claim", admin, `{}`); got.status < 500 {
			t.Errorf("claimed: %d %s", got.status, got.body)
		}
		w.must(t, 200, http.MethodGet, agentTasks+"/"+is.ID, "", &is)
		if is.Status != "ABORTED" || is.NextAttemptAt == nil || is.Attempt != 1 || is.RetryCount != 0 ||
			!strings.Contains(is.LastError, "the claim could not be answered") {
			t.Errorf("the task: %+v", is)
		}
	})
}

// TestABrokenClaimLeavesOthersAttempts: an agent fails no attempt that another one holds.
func TestABrokenClaimLeavesOthersAttempts(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		var other string
		var w *world
		w = newWorld(t, e, func(d *api.Deps) {
			all, given := *d, false
			d.Claim = func(ctx context.Context, ws db.Workspace, agent, _ string) (task.Task, bool, error) {
				if given {
					return task.Task{}, false, nil
				}
				given = true
				mine, ok, err := claim(ctx, all, ws, agent)
				if err != nil {
					return mine, ok, err
				}
				// The attempt is lost, and another agent gets the next one, before the claim is answered.
				w.must(t, 200, http.MethodPatch, agentTasks+"/"+mine.ID, `{"status":"PAUSED"}`, nil)
				w.must(t, 200, http.MethodPatch, agentTasks+"/"+mine.ID, `{"status":"PENDING"}`, nil)
				return claim(ctx, all, ws, other)
			}
		})
		other = ids()
		for _, id := range []string{working, other} {
			w.must(t, 201, http.MethodPut, agentsPath+"/"+id, `{"name":"scout"}`, nil)
		}
		var is taskTold
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"x","inputContext":{"key":{"$secret":"none"}}}`, &is)
		w.must(t, 204, http.MethodPost, agentsPath+"/"+working+"/claim", `{}`, nil)
		if w.must(t, 200, http.MethodGet, agentTasks+"/"+is.ID, "", &is); is.Status != "RUNNING" || is.Attempt != 2 {
			t.Errorf("the other agent's task: %+v", is)
		}
	})
}

// TestAnAgentIsItselfAlone: an agent acts for itself, not for another agent.
func TestAnAgentIsItselfAlone(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		other := ids()
		g.registered(t, g.Workspace, other)
		token := minted(t, g.agents, g.Workspace, working, 2)
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPost, "/heartbeat", `{}`}, {http.MethodPost, "/claim", `{}`}, {http.MethodGet, "/tasks", ""},
		} {
			g.asked(t, 404, c.method, agentsPath+"/"+other+c.path, token, c.body, nil)
		}
		for _, route := range api.Routes() { // the others of the resource are for people
			if strings.HasPrefix(route.Path, agentsPath) && !slices.Contains(route.Kinds, auth.Agent) {
				g.asked(t, 403, route.Method, strings.Replace(route.Path, "{id}", working, 1), token, `{"name":"x"}`, nil)
			}
		}
		for _, body := range []string{
			`{"status":"SLEEPY"}`, `{"attempt":0}`, `{"attempt":1}`, `{"progressPercent":101}`, `{"memoryMb":-1}`, `{"currentTaskId":"x"}`, `{"mood":"good"}`,
		} {
			g.asked(t, 422, http.MethodPost, agentsPath+"/"+working+"/heartbeat", token, body, nil)
		}
		for _, body := range []string{`{}`, `{"name":""}`, `{"name":"x","heartbeatIntervalSeconds":0}`, `{"name":"x","spawner":"magic"}`, `{"name":"x","status":"IDLE"}`} {
			g.must(t, 422, http.MethodPut, agentsPath+"/"+ids(), body, nil)
		}
		g.must(t, 422, http.MethodPut, agentsPath+"/x", `{"name":"x"}`, nil)
	})
}

// TestWhatAHeartbeatCosts: one round trip for the token, and one for the heartbeat.
func TestWhatAHeartbeatCosts(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		g := newGate(t, e)
		token := minted(t, g.agents, g.Workspace, working, 2)
		for range 3 {
			g.must(t, 201, http.MethodPost, agentTasks, `{"title":"one"}`, nil)
			g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/claim", token, "", nil)
			before := g.Env.DB.Stats()
			g.asked(t, 200, http.MethodPost, agentsPath+"/"+working+"/heartbeat", token, `{"currentStep":"reads"}`, nil)
			if spent := g.Env.DB.Stats().Sub(before); spent.RoundTrips != 2 || spent.Statements != 6 {
				t.Errorf("a heartbeat took %d round trips and %d statements, want 2 and 6", spent.RoundTrips, spent.Statements)
			}
		}
	})
}
