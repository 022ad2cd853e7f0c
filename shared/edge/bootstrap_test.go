package edge_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

const secretID = "arn:aws:secretsmanager:us-east-1:000000000000:secret:db-Ab12Cd"

// cloud is an AWS account with an empty database and the built functions.
type cloud struct {
	*rig.AWS
	owner string // URL of the database
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	aws, err := rig.StartAWS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aws.Close)
	return &cloud{aws, dbtest.NewDatabase(t)}
}

func (c *cloud) start(t *testing.T, function string, env map[string]string) *rig.Function {
	t.Helper()
	path, err := rig.Build(t.Context(), "github.com/lanekeeper/lanekeeper/functions/"+function)
	if err != nil {
		t.Fatal(err)
	}
	f, err := rig.Start(t.Context(), rig.Config{
		Bootstrap: path, Name: "keeper-" + function, Env: rig.Env(c.Env(), env), FreezeBetween: true, RetryDelay: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// exec runs a statement as the owner of the schema.
func (c *cloud) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	owner, err := pgx.Connect(t.Context(), c.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(t.Context())
	if _, err := owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func invoke(t *testing.T, f *rig.Function, payload []byte) *rig.Result {
	t.Helper()
	r, err := f.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// beat invokes a heartbeat that must succeed.
func beat(t *testing.T, f *rig.Function, payload []byte) heartbeat.Report {
	t.Helper()
	r := invoke(t, f, payload)
	var report heartbeat.Report
	if err := json.Unmarshal(r.Payload, &report); err != nil || r.FunctionError != nil {
		t.Fatalf("%s: %v, %v\n%s", payload, r.FunctionError, err, r.Logs)
	}
	return report
}

func event(t *testing.T, function, name string) []byte {
	t.Helper()
	for _, c := range events.For(function) {
		if c.Name == name {
			return c.Payload
		}
	}
	t.Fatalf("%s has no event %s", function, name)
	return nil
}

// TestDeployment makes a first deployment with the built functions. The beat before the migration
// fails with a clear message, the stack's migration creates the schema, and each shipped event then
// works in the same sandbox.
func TestDeployment(t *testing.T) {
	c := newCloud(t)
	c.SetSecret(secretID, c.owner)
	heart := c.start(t, "heartbeat", map[string]string{"DATABASE_URL": dbtest.AsLogin(c.owner)})
	migrate := c.start(t, "migrate", map[string]string{"DATABASE_SECRET_ARN": secretID, "DEMO": "1"})

	early := invoke(t, heart, event(t, "heartbeat", "01_schedule"))
	if e := early.FunctionError; e == nil || e.Type != "SchemaOutdated" || !strings.Contains(e.Message, "no Lanekeeper schema") {
		t.Fatalf("before the schema: %v\n%s", e, early.Logs)
	}

	create := bytes.ReplaceAll(event(t, "migrate", "02_custom_resource_create"), []byte("http://127.0.0.1:9/answer"), []byte(c.ResponseURL("create")))
	if r := invoke(t, migrate, create); r.FunctionError != nil {
		t.Fatalf("migrate: %v\n%s", r.FunctionError, r.Logs)
	}
	answers := c.CustomResources()
	if len(answers) != 1 || !strings.Contains(string(answers[0].Body), `"Status":"SUCCESS"`) {
		t.Fatalf("the stack got %s", answers)
	}
	var did struct {
		Schema struct {
			From, To int64
			Applied  []string
		}
	}
	again := invoke(t, migrate, event(t, "migrate", "01_invoke"))
	if err := json.Unmarshal(again.Payload, &did); err != nil || did.Schema.To != migrations.Latest() || len(did.Schema.Applied) != 0 {
		t.Errorf("a second migration answered %s, %v", again.Payload, err)
	}
	if r := invoke(t, migrate, event(t, "migrate", "04_owner")); !strings.Contains(string(r.Payload), `"owner":"there is one already"`) {
		t.Errorf("the owner was not made by the deployment: %s %v", r.Payload, r.FunctionError)
	}

	first := beat(t, heart, event(t, "heartbeat", "01_schedule"))
	if first.Outcome != heartbeat.Completed || first.Tokens == 0 {
		t.Errorf("the first beat on demo content: %+v", first)
	}
	for _, e := range events.For("heartbeat")[1:] {
		if r := beat(t, heart, e.Payload); r.Outcome != heartbeat.Completed && r.Outcome != heartbeat.Idle {
			t.Errorf("%s: %+v", e.Name, r)
		}
	}
	if r := beat(t, heart, event(t, "heartbeat", "01_schedule")); r.Outcome != heartbeat.Duplicate {
		t.Errorf("a slot that comes again: %+v", r)
	}
	for _, line := range strings.Split(strings.TrimSpace(early.Logs+again.Logs), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
	}
}

// With two workspaces the tick invokes the function once for each.
func TestFanOut(t *testing.T) {
	c := newCloud(t)
	migrate := c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner})
	if r := invoke(t, migrate, []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	const second = "0198a2b4-0000-7000-8000-00000000000a"
	c.exec(t, "INSERT INTO workspaces (id, slug, name) VALUES ($1, 'second', 'Second')", second)

	heart := c.start(t, "heartbeat", map[string]string{"DATABASE_URL": dbtest.AsLogin(c.owner)})
	c.Forward("keeper-heartbeat", heart)
	if r := beat(t, heart, event(t, "heartbeat", "01_schedule")); r.Outcome != heartbeat.Fanned {
		t.Errorf("the tick: %+v", r)
	}
	if err := heart.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kicks, dead := c.Invokes(), heart.DeadLetters(); len(kicks) != 2 || len(dead) != 0 {
		t.Errorf("%d kicks, %d dead letters", len(kicks), len(dead))
	}
	for _, ws := range []string{"00000000-0000-7000-8000-000000000001", second} {
		payload := []byte(`{"workspace":"` + ws + `","slot":"2026-01-05T10:30:00Z"}`)
		if r := beat(t, heart, payload); r.Outcome != heartbeat.Duplicate || r.Workspace != ws {
			t.Errorf("workspace %s has not had its beat: %+v", ws, r)
		}
	}
}

// No missing part of a function's environment prevents its start. Each invocation in the sandbox
// returns an error that names the problem.
func TestWhatIsMissingIsSaid(t *testing.T) {
	c := newCloud(t)
	for kind, env := range map[string]map[string]string{
		"DatabaseUnavailable":  {"DATABASE_URL": "postgres://keeper:hunter2@127.0.0.1:1/keeper"},
		"SecretUnusable":       {"DATABASE_SECRET_ARN": secretID},
		"InvalidConfiguration": {"DATABASE_URL": "postgres://keeper:hunter2@db/x", "STATE_BACKEND": "sqlite"},
	} {
		f := c.start(t, "heartbeat", env)
		for i := range 2 {
			r := invoke(t, f, []byte(`{}`))
			if r.FunctionError == nil || r.FunctionError.Type != kind || r.Cold != (i == 0) {
				t.Errorf("%s: %v, cold start %v\n%s", kind, r.FunctionError, r.Cold, r.Logs)
			}
			if strings.Contains(r.Logs+string(r.Payload), "hunter2") {
				t.Errorf("%s: a secret is shown: %s %s", kind, r.Payload, r.Logs)
			}
		}
	}
}

// The built heartbeat sends the spans of a beat before its sandbox is frozen. They are one tree, linked to the
// invocation's trace in X-Ray. Without a receiver the beat works as well.
func TestABeatSendsItsSpans(t *testing.T) {
	c := newCloud(t)
	r := spantest.New(t)
	migrate := c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner, "DEMO": "1"})
	if r := invoke(t, migrate, []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	heart := c.start(t, "heartbeat", map[string]string{
		"DATABASE_URL": dbtest.AsLogin(c.owner), "OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20key",
	})
	report := beat(t, heart, []byte(`{"by": "hand"}`))
	spans, requests := r.Spans(), r.Requests()
	if tree := spantest.Outline(t, spans); !strings.Contains(tree, "\n    chat demo") || !strings.Contains(tree, "\n    execute_tool ") {
		t.Errorf("the tree is\n%s\nof %+v", tree, report)
	}
	for _, s := range spans {
		named := s.Resource["faas.name"] == "keeper-heartbeat" && s.Resource["service.name"] == "lanekeeper-heartbeat"
		if (s.Parent == "") != (len(s.Links) == 1) || !named {
			t.Errorf("it is %+v", s)
		}
	}
	if len(requests) != 1 || requests[0].Header.Get("Api-Key") != "a key" {
		t.Errorf("the requests are %+v", requests)
	}
	alone := c.start(t, "heartbeat", map[string]string{
		"DATABASE_URL": dbtest.AsLogin(c.owner), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
	})
	if r := invoke(t, alone, []byte(`{"by": "hand"}`)); r.FunctionError != nil || !strings.Contains(r.Logs, "spans were not exported") {
		t.Errorf("%v\n%s", r.FunctionError, r.Logs)
	}
}
