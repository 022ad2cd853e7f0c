// Package infra_test checks that template.yaml, the functions, their events and the Makefile agree.
package infra_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/edge"
	"github.com/lanekeeper/lanekeeper/shared/observe"
)

const root = ".."

// translate does what a deployment does with the template after uploading the code. Only this step
// detects a property that SAM does not know or that has a wrong form.
const translate = `
import json, sys
from samtranslator.yaml_helper import yaml_parse
from samtranslator.translator.transform import transform

class NoManagedPolicies:
    def load(self):
        return {}

template = yaml_parse(sys.stdin.read())
template["Globals"]["Function"]["CodeUri"] = "s3://bucket/code"
json.dump(transform(template, {}, NoManagedPolicies()), sys.stdout)
`

// template is the translated template.
type template struct {
	Parameters map[string]struct {
		Description    string
		AllowedPattern string
		NoEcho         bool
		AllowedValues  []any
		Default        any
	}
	Mappings   map[string]map[string]map[string]int
	Conditions map[string]any
	Rules      map[string]struct {
		RuleCondition any
		Assertions    []assertion
	}
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
}

type assertion struct{ Assert any }

type resource struct {
	Type       string
	Condition  string
	DependsOn  any // a name or several
	Metadata   map[string]any
	Properties map[string]any
}

// has returns a value by its path, such as "Target.RetryPolicy"; nil if it is missing.
func (r resource) has(path string) any {
	var v any = r.Properties
	for key := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[key]
	}
	return v
}

func (r resource) dependsOn(name string) bool {
	several, _ := r.DependsOn.([]any)
	return r.DependsOn == name || slices.Contains(several, any(name))
}

func load(t *testing.T) template {
	t.Helper()
	x, err := translated()
	switch {
	case errors.Is(err, errNoTranslator) && !dbtest.InCI():
		t.Skipf("NOT RUN, nothing checks template.yaml: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	return x
}

var errNoTranslator = errors.New("the SAM translator is missing: pip install aws-sam-translator")

// translated returns the template. It translates the template once.
var translated = sync.OnceValues(func() (x template, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := exec.CommandContext(ctx, "python3", "-c", "import samtranslator").Run(); err != nil {
		return x, errNoTranslator
	}
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		return x, err
	}
	cmd := exec.CommandContext(ctx, "python3", "-W", "ignore", "-c", translate)
	cmd.Stdin = bytes.NewReader(text)
	cmd.Env = append(os.Environ(), "AWS_DEFAULT_REGION=eu-central-1")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	raw, err := cmd.Output()
	if err != nil {
		return x, fmt.Errorf("the SAM translator refuses template.yaml: %w\n%s", err, &complaint)
	}
	if complaint.Len() > 0 {
		return x, fmt.Errorf("the SAM translator warns of template.yaml:\n%s", &complaint)
	}
	return x, json.Unmarshal(raw, &x)
})

// of returns the resources of one type.
func (x template) of(kind string) map[string]resource {
	out := map[string]resource{}
	for name, r := range x.Resources {
		if r.Type == kind {
			out[name] = r
		}
	}
	return out
}

// functions returns the folders in functions.
func functions(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join(root, "functions/*/main.go"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("found %d functions, %v", len(mains), err)
	}
	var names []string
	for _, m := range mains {
		names = append(names, filepath.Base(filepath.Dir(m)))
	}
	return names
}

func logical(function string) string {
	return strings.ToUpper(function[:1]) + function[1:] + "Function"
}

func ref(name string) map[string]any { return map[string]any{"Ref": name} }

// is compares values as JSON.
func is(got, want any) bool {
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

func getAtt(name, attribute string) map[string]any {
	return map[string]any{"Fn::GetAtt": []any{name, attribute}}
}

func TestOneResourceAFunction(t *testing.T) {
	x := load(t)
	lambdas := x.of("AWS::Lambda::Function")
	names := functions(t)
	if len(lambdas) != len(names) {
		t.Errorf("%d functions in the template, %d folders", len(lambdas), len(names))
	}
	for _, name := range names {
		f, ok := lambdas[logical(name)]
		if !ok {
			t.Errorf("%s has no %s in the template", name, logical(name))
			continue
		}
		for path, want := range map[string]any{
			"Handler": "bootstrap", "Runtime": "provided.al2023", "Architectures": []any{"arm64"}, "TracingConfig.Mode": "Active",
		} {
			if !is(f.has(path), want) {
				t.Errorf("%s: %s is %v", name, path, f.has(path))
			}
		}
		if f.Metadata["BuildMethod"] != "makefile" {
			t.Errorf("%s is not built by the Makefile", name)
		}
		if name != "migrate" && !f.dependsOn("Migration") {
			t.Errorf("%s may be updated before the schema", name)
		}
		group, _ := f.has("LoggingConfig.LogGroup").(map[string]any)
		log, _ := group["Ref"].(string)
		if x.Resources[log].has("RetentionInDays") == nil {
			t.Errorf("%s keeps its logs for ever", name)
		}
		invoke := x.Resources[logical(name)+"EventInvokeConfig"]
		attempts := 2
		if name == "coordinator" || name == "worker" { // its next minute does it, or the row of the task
			attempts = 0
		}
		if !is(invoke.has("MaximumRetryAttempts"), attempts) || !is(invoke.has("DestinationConfig.OnFailure.Destination"), getAtt("DeadLetters", "Arn")) {
			t.Errorf("%s: asynchronous invocations end in %v", name, invoke.Properties)
		}
	}
}

func TestEveryFunctionHasEvents(t *testing.T) {
	names := functions(t)
	for _, name := range names {
		cases := events.For(name)
		if len(cases) == 0 {
			t.Errorf("%s has no events", name)
		}
		for i, c := range cases {
			if n, err := strconv.Atoi(c.Name[:2]); err != nil || n != i+1 || c.Name[2] != '_' || !json.Valid(c.Payload) {
				t.Errorf("%s: event %d is %s", name, i+1, c.Name)
			}
		}
	}
	for _, c := range events.All() {
		if !slices.Contains(names, c.Function) {
			t.Errorf("the events of %s are of no function", c.Function)
		}
	}
}

// TestTheRootOfTheDatabaseStandsBesideTheFunction: in /var/task, where sslrootcert may name it.
func TestTheRootOfTheDatabaseStandsBesideTheFunction(t *testing.T) {
	for given, want := range map[string]bool{"DATABASE_ROOT=/roots/mine.crt": true, "DATABASE_ROOT=": false} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "build-OperateFunction", "ARTIFACTS_DIR=/artifacts", given)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "cp /roots/mine.crt /artifacts/database-root.pem") != want {
			t.Errorf("%s: %v\n%s", given, err, out)
		}
	}
}

func TestMakefileBuildsWhatTheTemplateNames(t *testing.T) {
	// Tells go test that the result depends on this file.
	if _, err := os.Stat(filepath.Join(root, "Makefile")); err != nil {
		t.Fatal(err)
	}
	for _, name := range functions(t) {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "build-"+logical(name), "ARTIFACTS_DIR=/artifacts")
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("make build-%s: %v\n%s", logical(name), err, out)
			continue
		}
		for _, want := range []string{"GOARCH=arm64", "GOOS=linux", "-o /artifacts/bootstrap", "./functions/"} {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("make build-%s does without %s:\n%s", logical(name), want, out)
			}
		}
	}
}

func TestSchedule(t *testing.T) {
	x := load(t)
	schedules := x.of("AWS::Scheduler::Schedule")
	if len(schedules) != 3 {
		t.Fatalf("%d schedules", len(schedules))
	}
	for _, s := range schedules {
		if is(s.has("Target.Arn"), getAtt("OperateFunction", "Arn")) {
			if s.has("ScheduleExpression") != "rate(1 minute)" || s.has("Target.Input") != `{"source":"lanekeeper.tend"}` ||
				!is(s.has("Target.DeadLetterConfig.Arn"), getAtt("DeadLetters", "Arn")) || !is(s.has("Name"), map[string]any{"Fn::Sub": "${AWS::StackName}-tend"}) {
				t.Errorf("what is due between beats is done by %v", s.Properties)
			}
			continue
		}
		if is(s.has("Target.Arn"), getAtt("CoordinatorFunction", "Arn")) {
			input, _ := s.has("Target.Input").(string)
			tick, err := edge.DecodeCycle([]byte(strings.ReplaceAll(input, "<aws.scheduler.scheduled-time>", "2026-11-20T10:30:00Z")))
			if err != nil || tick.Slot.IsZero() || tick.Workspace != "" || s.has("ScheduleExpression") != "rate(1 minute)" ||
				!is(s.has("Target.DeadLetterConfig.Arn"), getAtt("DeadLetters", "Arn")) || !is(s.has("Name"), map[string]any{"Fn::Sub": "${AWS::StackName}-coordinator"}) {
				t.Errorf("cycles run by %v: %+v, %v", s.Properties, tick, err)
			}
			continue
		}
		if !is(s.has("Target.Arn"), getAtt("HeartbeatFunction", "Arn")) {
			t.Errorf("the schedule is of %v", s.has("Target.Arn"))
		}
		if attempts, ok := s.has("Target.RetryPolicy.MaximumRetryAttempts").(float64); !ok || attempts < 1 {
			t.Errorf("the schedule retries %v", s.has("Target.RetryPolicy"))
		}
		if !is(s.has("Target.DeadLetterConfig.Arn"), getAtt("DeadLetters", "Arn")) {
			t.Errorf("slots that can't be delivered go to %v", s.has("Target.DeadLetterConfig"))
		}
		if !is(s.has("Name"), map[string]any{"Fn::Sub": "${AWS::StackName}-heartbeat"}) {
			t.Errorf("two stacks of an account would both name their schedule %v", s.has("Name"))
		}
		if !is(s.has("ScheduleExpression"), map[string]any{"Fn::Sub": "rate(${HeartbeatMinutes} minutes)"}) {
			t.Errorf("the schedule is %v", s.has("ScheduleExpression"))
		}
		input, _ := s.has("Target.Input").(string)
		tick, err := edge.DecodeTick([]byte(strings.ReplaceAll(input, "<aws.scheduler.scheduled-time>", "2026-11-20T10:30:00Z")))
		if err != nil || tick.Slot.IsZero() || tick.Workspace != "" {
			t.Errorf("the function takes %s for %+v, %v", input, tick, err)
		}
	}
}

func TestAlarms(t *testing.T) {
	x := load(t)
	if a := x.Resources["HeartbeatAbsent"]; a.has("TreatMissingData") != "breaching" || a.has("MetricName") != "Invocations" ||
		a.has("ComparisonOperator") != "LessThanThreshold" || !is(a.has("Threshold"), 1) || a.has("Statistic") != "Sum" ||
		!is(a.has("Period"), map[string]any{"Fn::FindInMap": []any{"Every", ref("HeartbeatMinutes"), "Seconds"}}) {
		t.Errorf("the absence of heartbeats raises no alarm: %v", a.Properties)
	}
	for _, minutes := range x.Parameters["HeartbeatMinutes"].AllowedValues {
		n, _ := minutes.(float64)
		if seconds := x.Mappings["Every"][strconv.Itoa(int(n))]["Seconds"]; seconds != int(n)*60 {
			t.Errorf("%v minutes are %d seconds", n, seconds)
		}
	}
	if a := x.Resources["HeartbeatErrors"]; a.has("MetricName") != "Errors" || a.has("TreatMissingData") != "notBreaching" {
		t.Errorf("errors raise no alarm: %v", a.Properties)
	}
	if a := x.Resources["DeadLettersArrived"]; a.has("MetricName") != "ApproximateNumberOfMessagesVisible" || !is(a.has("Threshold"), 0) {
		t.Errorf("dead letters raise no alarm: %v", a.Properties)
	}
	says, err := os.ReadFile(filepath.Join(root, "shared/surface/heartbeat/tend.go"))
	if err != nil || !bytes.Contains(says, []byte(`ErrorContext(ctx, "a person is needed"`)) {
		t.Errorf("no beat says that a person is needed: %v", err)
	}
	if f, a := x.Resources["PersonNeededInLog"], x.Resources["PersonNeeded"]; f.has("FilterPattern") != `{ $.msg = "a person is needed" }` ||
		!is(f.has("LogGroupName"), ref("HeartbeatLog")) || !is(f.has("MetricTransformations"), []any{map[string]any{
		"MetricNamespace": a.has("Namespace"), "MetricName": a.has("MetricName"), "MetricValue": "1",
	}}) || a.has("TreatMissingData") != "notBreaching" {
		t.Errorf("what a person is needed for raises no alarm: %v, %v", f.Properties, a.Properties)
	}
	if a := x.Resources["CoordinatorUnavailable"]; a.has("MetricName") != "5xx" || !is(a.has("Dimensions"), []any{map[string]any{"Name": "ApiId", "Value": ref("CoordinatorApi")}}) {
		t.Errorf("a coordinator that is away raises no alarm: %v", a.Properties)
	}
	if a := x.Resources["CoordinatorErrors"]; a.has("MetricName") != "Errors" || a.has("TreatMissingData") != "notBreaching" {
		t.Errorf("cycles that fail raise no alarm: %v", a.Properties)
	}
	for _, name := range []string{"Operate", "Chat"} {
		if a := x.Resources[name+"Errors"]; a.has("MetricName") != "Errors" || a.has("TreatMissingData") != "notBreaching" ||
			!is(a.has("Dimensions"), []any{map[string]any{"Name": "FunctionName", "Value": ref(name + "Function")}}) {
			t.Errorf("errors of %s raise no alarm: %v", name, a.Properties)
		}
		if a := x.Resources[name+"Unavailable"]; !is(a.has("MetricName"), map[string]any{"Fn::If": []any{"OnRestApi", "5XXError", "Url5xxCount"}}) {
			t.Errorf("%s that is away raises no alarm: %v", name, a.Properties)
		}
	}
	for name, want := range map[string]struct {
		metric, statistic string
		threshold         int
	}{
		"CycleSlow":         {"coordinator.cycle.duration_ms", "Maximum", 5000},
		"AgentsStale":       {"coordinator.stale_agents.count", "Maximum", 5},
		"TasksPending":      {"tasks.pending.count", "Maximum", 50},
		"TasksFailed":       {"tasks.failed.count", "Maximum", 10},
		"RetriesExhausted":  {"tasks.retry.exhausted.count", "Maximum", 0},
		"ValkeyUnreachable": {"valkey.connection.errors", "Sum", 0},
	} {
		a := x.Resources[name]
		if a.has("MetricName") != want.metric || a.has("Statistic") != want.statistic || !is(a.has("Threshold"), want.threshold) ||
			a.has("ComparisonOperator") != "GreaterThanThreshold" || a.has("TreatMissingData") != "notBreaching" ||
			!is(a.has("Dimensions"), []any{map[string]any{"Name": "FunctionName", "Value": ref("CoordinatorFunction")}}) {
			t.Errorf("%s is %v", name, a.Properties)
		}
	}
	for name, function := range map[string]string{"AgentsSpawned": "CoordinatorFunction", "AgentsSpawnedByOperate": "OperateFunction"} {
		a := x.Resources[name]
		if a.has("MetricName") != "agents.spawned.count" || a.has("Statistic") != "Sum" || !is(a.has("Threshold"), 100) ||
			!is(a.has("Period"), 60) || !is(a.has("Dimensions"), []any{map[string]any{"Name": "FunctionName", "Value": ref(function)}}) {
			t.Errorf("%s is %v", name, a.Properties)
		}
	}
	if a := x.Resources["CycleAbsent"]; a.has("MetricName") != "coordinator.cycle.duration_ms" || a.has("Statistic") != "SampleCount" || !is(a.has("Period"), 60) ||
		!is(a.has("EvaluationPeriods"), 5) || a.has("ComparisonOperator") != "LessThanThreshold" || a.has("TreatMissingData") != "breaching" {
		t.Errorf("5 minutes without a cycle raise no alarm: %v", a.Properties)
	}
	for name, a := range x.of("AWS::CloudWatch::Alarm") {
		if metric, ok := a.has("MetricName").(string); ok && a.has("Namespace") == observe.Namespace && !slices.Contains(observe.Names(), metric) {
			t.Errorf("%s is about %s, which nothing writes", name, metric)
		}
		if !is(a.has("AlarmActions"), []any{ref("AlarmTopic")}) {
			t.Errorf("%s tells %v", name, a.has("AlarmActions"))
		}
	}
}

// Each alarm on a metric of ours is about one that the coordinator's log really writes: with that namespace,
// dimension and unit. Operate writes what it has spawned in the same way: it begins tasks that its API creates.
func TestAlarmsAreAboutWhatIsWritten(t *testing.T) {
	g, err := observe.NewGauges(dbtest.New(t, dbtest.OnSQLite).DB)
	if err != nil {
		t.Fatal(err)
	}
	samples, err := g.Read(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m := observe.NewLines()
	m.Set(samples)
	m.Cycle(observe.Cycle{Took: 6 * time.Second, Spawned: map[string]int{"http": 101}})
	m.ValkeyUnreachable()
	var b bytes.Buffer
	if err := m.Line(&b, "the-coordinator", time.Now()); err != nil {
		t.Fatal(err)
	}
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	values := map[string]any{}
	if err := errors.Join(json.Unmarshal(b.Bytes(), &line), json.Unmarshal(b.Bytes(), &values)); err != nil {
		t.Fatal(err)
	}
	written := map[string]string{} // how CloudWatch knows a metric, and its unit
	for _, d := range line.AWS.CloudWatchMetrics {
		for _, of := range d.Metrics {
			for _, dimensions := range d.Dimensions {
				written[fmt.Sprint(d.Namespace, of.Name, dimensions)] = of.Unit
			}
		}
	}
	n := 0
	for name, a := range load(t).of("AWS::CloudWatch::Alarm") {
		metric, ours := a.has("MetricName").(string)
		if !ours || a.has("Namespace") != observe.Namespace {
			continue
		}
		n++
		var dimensions []string
		list, _ := a.has("Dimensions").([]any)
		for _, d := range list {
			of, _ := d.(map[string]any)
			dimension, _ := of["Name"].(string)
			dimensions = append(dimensions, dimension)
			function := "CoordinatorFunction"
			if name == "AgentsSpawnedByOperate" {
				function = "OperateFunction"
			}
			if values[dimension] != "the-coordinator" || !is(of["Value"], ref(function)) {
				t.Errorf("%s is of %v; the line says %v", name, of, values[dimension])
			}
		}
		unit, there := written[fmt.Sprint(a.has("Namespace"), metric, dimensions)]
		if !there || values[metric] == nil || (unit == "Milliseconds") != strings.HasSuffix(metric, "_ms") || unit != "Milliseconds" && unit != "Count" {
			t.Errorf("%s is about %s of %v, which is written in %q as %v", name, metric, dimensions, unit, values[metric])
		}
	}
	if n != 9 {
		t.Errorf("%d alarms are about what functions write, want 9", n)
	}
}

// The dashboard is JSON, and shows metrics that are written, of functions that there are.
func TestDashboard(t *testing.T) {
	x := load(t)
	body, _ := x.Resources["Dashboard"].has("DashboardBody").(map[string]any)
	text, _ := body["Fn::Sub"].(string)
	var board struct {
		Widgets []struct {
			Type          string
			X, Y          int
			Width, Height int
			Properties    struct {
				Region, Title string
				Metrics       [][]any
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	n := 0
	for _, w := range board.Widgets {
		if strings.HasPrefix(w.Properties.Title, "Models: ") {
			for _, asks := range []string{"Heartbeat", "Operate", "Chat", "Worker"} {
				if !slices.ContainsFunc(w.Properties.Metrics, func(m []any) bool { return m[3] == "${"+asks+"Function}" }) {
					t.Errorf("%s leaves out %s, which asks models", w.Properties.Title, asks)
				}
			}
		}
		if w.Type != "metric" || w.Properties.Title == "" || w.X+w.Width > 24 || w.Height == 0 || w.Properties.Region != "${AWS::Region}" {
			t.Errorf("%+v", w)
		}
		for _, m := range w.Properties.Metrics {
			n++
			name, _ := m[1].(string)
			function, _ := m[3].(string)
			if m[0] != observe.Namespace || !slices.Contains(observe.Names(), name) || m[2] != "FunctionName" {
				t.Errorf("%s shows %v", w.Properties.Title, m)
			}
			if _, there := x.Resources[strings.TrimSuffix(strings.TrimPrefix(function, "${"), "}")]; !there {
				t.Errorf("%s is of %s", w.Properties.Title, function)
			}
		}
	}
	if n < 15 {
		t.Errorf("%d metrics", n)
	}
}

func TestMigrationRunsWhenTheSchemaIsNew(t *testing.T) {
	m := load(t).Resources["Migration"]
	if !is(m.has("ServiceToken"), getAtt("MigrateFunction", "Arn")) {
		t.Errorf("the migration is done by %v", m.has("ServiceToken"))
	}
	if !is(m.has("SchemaVersion"), migrations.Latest()) {
		t.Errorf("template.yaml: SchemaVersion of Migration is %v and the newest migration %d: a deployment would not run it",
			m.has("SchemaVersion"), migrations.Latest())
	}
}

func TestWhatIsSecretStaysSo(t *testing.T) {
	x := load(t)
	for _, name := range []string{
		"DatabaseUrl", "AnthropicApiKey", "OpenAiApiKey", "AdminToken", "JwtSecret", "GatewayToken", "RedisUrl", "OtlpHeaders",
	} {
		if !x.Parameters[name].NoEcho {
			t.Errorf("%s is shown", name)
		}
	}
	for name, q := range x.of("AWS::SQS::Queue") {
		if q.has("SqsManagedSseEnabled") != true {
			t.Errorf("%s is not encrypted", name)
		}
	}
	if m := x.Resources["Migration"]; !is(m.has("OwnerEmail"), ref("OwnerEmail")) {
		t.Errorf("the first owner is %v", m.has("OwnerEmail"))
	}
	if m := x.Resources["Migration"]; strings.Contains(string(encode(t, m.Properties)), "DatabaseUrl") {
		t.Error("the custom resource has the database's password in its event")
	}
}

// The parameters say who may sign in. A variable without a parameter is not set.
func TestWhoMaySignIn(t *testing.T) {
	x := load(t)
	for variable, parameter := range map[string]string{
		"ADMIN_TOKEN": "AdminToken", "JWT_SECRET": "JwtSecret", "JWKS_URL": "JwksUrl", "JWT_ISSUER": "JwtIssuer", "JWT_AUDIENCE": "JwtAudience",
		"JWT_MAX_LIFE":           "JwtMaxLife",
		"ADMIN_TOKEN_SECRET_ARN": "AdminTokenSecretArn", "JWT_SECRET_SECRET_ARN": "JwtSecretSecretArn",
	} {
		if _, there := x.Parameters[parameter]; !there {
			t.Errorf("there is no parameter %s", parameter)
		}
		if !is(x.Conditions["Has"+parameter], map[string]any{"Fn::Not": []any{map[string]any{"Fn::Equals": []any{ref(parameter), ""}}}}) {
			t.Errorf("Has%s is %v", parameter, x.Conditions["Has"+parameter])
		}
		want := map[string]any{"Fn::If": []any{"Has" + parameter, ref(parameter), ref("AWS::NoValue")}}
		for _, name := range []string{"OperateFunction", "ChatFunction", "CoordinatorFunction"} {
			if f := x.Resources[name]; !is(f.has("Environment.Variables."+variable), want) {
				t.Errorf("%s has %s as %v", name, variable, f.has("Environment.Variables."+variable))
			}
		}
	}
}

// A function has exactly the secrets that it needs.
func TestAFunctionHasItsOwnSecretsAlone(t *testing.T) {
	x := load(t)
	people := []string{"ADMIN_TOKEN", "ADMIN_TOKEN_SECRET_ARN", "JWT_SECRET", "JWT_SECRET_SECRET_ARN", "JWKS_URL",
		"JWT_ISSUER", "JWT_AUDIENCE", "JWT_MAX_LIFE"}
	agent := []string{"ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_SECRET_ARN", "OPENAI_API_KEY", "OPENAI_API_KEY_SECRET_ARN", "OPENAI_BASE_URL", "LLM_PROVIDER", "LLM_MODEL", "KMS_KEY_ID", "ALLOW_PRIVATE_HOSTS"}
	everyone := []string{"DATABASE_URL", "DATABASE_SECRET_ARN", "LOG_LEVEL"}
	spans := []string{ // of functions that run executions
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS_SECRET_ARN",
	}
	gateway := []string{"REDIS_URL", "HEARTBEAT_EVERY", "GATEWAY_URL", "GATEWAY_TOKEN", "GATEWAY_TOKEN_SECRET_ARN"}
	for name, want := range map[string][]string{
		"MigrateFunction":   append([]string{"DEMO"}, everyone...),
		"HeartbeatFunction": slices.Concat(agent, everyone, spans, []string{"TEND_FUNCTION"}),
		"OperateFunction":   slices.Concat(people, agent, gateway, everyone, spans, []string{"EMAIL_FROM", "WORKER_FUNCTION"}),
		"ChatFunction":      slices.Concat(people, agent, everyone, spans, []string{"TEND_FUNCTION"}),
		"CoordinatorFunction": slices.Concat(people, gateway, everyone, spans,
			[]string{"EMAIL_FROM", "TEND_FUNCTION", "WORKER_FUNCTION", "KMS_KEY_ID", "ALLOW_PRIVATE_HOSTS"}),
		"WorkerFunction":  slices.Concat(agent, everyone, spans, []string{"TEND_FUNCTION", "WORKER_FUNCTION"}),
		"WebhookFunction": append([]string{"KMS_KEY_ID", "TEND_FUNCTION"}, everyone...),
	} {
		variables, _ := x.Resources[name].has("Environment.Variables").(map[string]any)
		got := slices.Sorted(maps.Keys(variables))
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

// A flood affects neither the other functions nor the account's limits. Access logs are written
// only on request, because that default would fail in a fresh account. Firewalls and keys are those
// that the deployer names.
func TestWhatComesInIsBounded(t *testing.T) {
	x := load(t)
	for name, want := range map[string]float64{
		"OperateConcurrency": 0, "ThrottleRate": 1000, "ThrottleBurst": 2000, "ChatConcurrency": 0, "ChatThrottleRate": 100, "ChatThrottleBurst": 200,
	} {
		if got := x.Parameters[name].Default; got != want {
			t.Errorf("%s is %v by default", name, got)
		}
	}
	unless := func(condition, parameter string) map[string]any {
		return map[string]any{"Fn::If": []any{condition, ref(parameter), ref("AWS::NoValue")}}
	}
	for _, name := range []string{"Operate", "Chat"} {
		if got := x.Resources[name+"Function"].has("ReservedConcurrentExecutions"); !is(got, unless("Has"+name+"Concurrency", name+"Concurrency")) {
			t.Errorf("%s has %v for itself", name, got)
		}
	}
	if got := len(x.of("AWS::ApiGateway::Stage")); got != 2 {
		t.Fatalf("%d stages", got)
	}
	for of, parameters := range map[string]string{"Operate": "", "Chat": "Chat"} {
		name := of + "ApiliveStage"
		s := x.Resources[name]
		if got := s.has("MethodSettings"); !is(got, []any{map[string]any{
			"HttpMethod": "*", "ResourcePath": "/*", "ThrottlingRateLimit": ref(parameters + "ThrottleRate"), "ThrottlingBurstLimit": ref(parameters + "ThrottleBurst"),
		}}) {
			t.Errorf("the stage takes %v", got)
		}
		branches, _ := s.has("AccessLogSetting.Fn::If").([]any)
		if len(branches) != 3 || branches[0] != "HasAccessLog" || x.Parameters["WriteAccessLog"].Default != "false" {
			t.Fatalf("the access log is %v", s.has("AccessLogSetting"))
		}
		log := resource{}
		log.Properties, _ = branches[1].(map[string]any)
		format, _ := log.has("Format").(string)
		if !json.Valid([]byte(format)) || strings.Contains(format, "header") || strings.Contains(format, "querystring") ||
			!is(log.has("DestinationArn"), getAtt(parameters+"AccessLog", "Arn")) {
			t.Errorf("the access log is %v", log.Properties)
		}
		if f := x.Resources[of+"ApiFirewall"]; f.Condition != "HasWebAcl" || !f.dependsOn(name) || !is(f.has("WebACLArn"), ref("WebAclArn")) {
			t.Errorf("the firewall is %v", f)
		}
	}
	for name, g := range x.of("AWS::Logs::LogGroup") {
		if !is(g.has("KmsKeyId"), unless("HasLogKey", "LogKmsKeyArn")) || !is(g.has("RetentionInDays"), ref("LogRetentionDays")) {
			t.Errorf("%s is %v", name, g.Properties)
		}
	}
	if got := x.Resources["AlarmTopic"].has("KmsMasterKeyId"); !is(got, unless("HasAlarmKey", "AlarmKmsKeyArn")) {
		t.Errorf("alarms are encrypted by %v", got)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Every variable that the template sets is read by the configuration.
func TestVariables(t *testing.T) {
	cfg, err := app.LoadConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range cfg.Redacted() {
		known[s.Variable] = true
	}
	for name, f := range load(t).of("AWS::Lambda::Function") {
		variables, _ := f.has("Environment.Variables").(map[string]any)
		if len(variables) == 0 {
			t.Errorf("%s has no variables", name)
		}
		for v := range variables {
			if !known[v] {
				t.Errorf("%s: %s is not read", name, v)
			}
		}
	}
}

// Webhooks and agents come through HTTP APIs that have throttling and access logs. Their functions have
// short time-outs and optional reserved concurrency.
func TestHTTPAPIsAreBounded(t *testing.T) {
	x := load(t)
	for name, want := range map[string]struct {
		seconds int
		route   string
	}{"Webhook": {10, "POST /webhooks/{workspace}/{source}"}, "Coordinator": {60, "$default"}} {
		f := x.Resources[name+"Function"]
		reserved := map[string]any{"Fn::If": []any{"Has" + name + "Concurrency", ref(name + "Concurrency"), ref("AWS::NoValue")}}
		if !is(f.has("Timeout"), want.seconds) || !is(f.has("ReservedConcurrentExecutions"), reserved) {
			t.Errorf("%s has %v s, and reserves %v", name, f.has("Timeout"), f.has("ReservedConcurrentExecutions"))
		}
		stage := x.Resources[name+"Stage"]
		for path, value := range map[string]any{
			"DefaultRouteSettings.ThrottlingRateLimit":  ref(name + "ThrottleRate"),
			"DefaultRouteSettings.ThrottlingBurstLimit": ref(name + "ThrottleBurst"),
			"AccessLogSettings.DestinationArn":          getAtt(name+"AccessLog", "Arn"),
			"StageName":                                 "$default",
		} {
			if !is(stage.has(path), value) {
				t.Errorf("the stage of %s has %s as %v", name, path, stage.has(path))
			}
		}
		if route := x.Resources[name+"Route"]; !is(route.has("RouteKey"), want.route) {
			t.Errorf("the route of %s is %v", name, route.has("RouteKey"))
		}
		if i := x.Resources[name+"Integration"]; !is(i.has("PayloadFormatVersion"), "2.0") {
			t.Errorf("%s gets payloads of version %v", name, i.has("PayloadFormatVersion"))
		}
	}
	if asked := x.Resources["WebhookHandshakeRoute"]; !is(asked.has("RouteKey"), "OPTIONS /webhooks/{workspace}/{source}") {
		t.Errorf("the route by which senders ask before they send is %v", asked.has("RouteKey"))
	}
}

// A stack refuses values with which its functions would not start, or whose rights would not fit.
func TestParametersRefuseWhatFunctionsWould(t *testing.T) {
	x := load(t)
	const secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:lk-AbCdEf"
	for name, c := range map[string]struct{ takes, refuses []string }{
		// the right to send is for exactly this address
		"EmailFrom":                {[]string{"", "agent@example.com"}, []string{"Agent <agent@example.com>", "agent"}},
		"DatabaseSecretArn":        {[]string{"", secret}, []string{"lk", "lk-AbCdEf"}},
		"AdminTokenSecretArn":      {[]string{"", secret}, []string{"lk"}},
		"AnthropicApiKey":          {[]string{"", "sk-ant-1"}, []string{"sk ant", "sk-ant-ü"}},
		"OpenAiApiKey":             {[]string{"", "sk-1"}, []string{"sk 1"}},
		"GatewayToken":             {[]string{"", "a-token"}, []string{"a token"}},
		"OpenAiBaseUrl":            {[]string{"", "http://10.0.0.7:11434/v1", "https://llm.example.com/v1"}, []string{"llm.example.com/v1"}},
		"OtlpHeadersSecretArn":     {[]string{"", secret}, []string{"lk"}},
		"AnthropicApiKeySecretArn": {[]string{"", secret}, []string{"lk"}},
	} {
		pattern, err := regexp.Compile("^(?:" + x.Parameters[name].AllowedPattern + ")$") // CloudFormation matches the whole value
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range c.takes {
			if !pattern.MatchString(value) {
				t.Errorf("%s refuses %q", name, value)
			}
		}
		for _, value := range c.refuses {
			if x.Parameters[name].AllowedPattern == "" || pattern.MatchString(value) {
				t.Errorf("%s takes %q", name, value)
			}
		}
	}
}

// allows reports whether the rules take parameters, of which those that are not given are empty.
func (x template) allows(given map[string]string) bool {
	var eval func(any) any
	eval = func(v any) any {
		object, is := v.(map[string]any)
		if !is {
			return v
		}
		for how, of := range object {
			list, _ := of.([]any)
			switch how {
			case "Ref":
				return given[fmt.Sprint(of)]
			case "Fn::Equals":
				return eval(list[0]) == eval(list[1])
			case "Fn::Not":
				return eval(list[0]) == false
			case "Fn::Or":
				return slices.ContainsFunc(list, func(v any) bool { return eval(v) == true })
			case "Fn::And":
				return !slices.ContainsFunc(list, func(v any) bool { return eval(v) == false })
			}
		}
		return true // of a list
	}
	for _, rule := range x.Rules {
		if rule.RuleCondition != nil && eval(rule.RuleCondition) == false {
			continue
		}
		for _, a := range rule.Assertions {
			if eval(a.Assert) == false {
				return false
			}
		}
	}
	return true
}

// A stack is refused exactly if its functions would refuse to ask models as it says.
func TestRulesRefuseAModelThatFunctionsWould(t *testing.T) {
	x := load(t)
	const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:lk"
	given := map[string]string{"DatabaseUrl": "postgres://u:p@db.example.com/lk"}
	environ := func() []string {
		all := []string{"AWS_LAMBDA_FUNCTION_NAME=lk", "AWS_REGION=eu-central-1"}
		for parameter, variable := range map[string]string{
			"DatabaseUrl": "DATABASE_URL", "LlmProvider": "LLM_PROVIDER", "LlmModel": "LLM_MODEL", "OpenAiBaseUrl": "OPENAI_BASE_URL",
			"AnthropicApiKey": "ANTHROPIC_API_KEY", "AnthropicApiKeySecretArn": "ANTHROPIC_API_KEY_SECRET_ARN",
			"OpenAiApiKey": "OPENAI_API_KEY", "OpenAiApiKeySecretArn": "OPENAI_API_KEY_SECRET_ARN",
		} {
			all = append(all, variable+"="+given[parameter])
		}
		return all
	}
	choices := []struct {
		parameter string
		values    []string
	}{
		{"LlmProvider", []string{"", "bedrock", "anthropic", "openai", "demo"}}, {"LlmModel", []string{"", "a-model"}},
		{"OpenAiBaseUrl", []string{"", "https://llm.example.com/v1"}},
		{"AnthropicApiKey", []string{"", "key"}}, {"AnthropicApiKeySecretArn", []string{"", arn}},
		{"OpenAiApiKey", []string{"", "key"}}, {"OpenAiApiKeySecretArn", []string{"", arn}},
	}
	var try func(n int)
	try = func(n int) {
		if n == len(choices) {
			_, err := app.LoadConfig(environ())
			if allowed := x.allows(given); allowed != (err == nil) {
				t.Errorf("with %v the stack is allowed: %t; its functions say: %v", given, allowed, err)
			}
			return
		}
		for _, value := range choices[n].values {
			given[choices[n].parameter] = value
			try(n + 1)
		}
	}
	try(0)
}
