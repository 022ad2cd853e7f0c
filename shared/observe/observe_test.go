package observe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/observe/observetest"
)

// used counts something with each instrument.
func used(m *observe.Meters) {
	m.Cycle(observe.Cycle{Took: 1500 * time.Millisecond, Spawned: map[string]int{"pull": 3, "http": 2}, Recovered: 1})
	m.CycleBusy()
	m.CycleFailed()
	m.Lane("objective:8b8f5f3e", observe.Acquired, 20*time.Millisecond)
	m.Lane("objective:8b8f5f3e", observe.Released, 2*time.Second)
	m.Lane("coordinator", observe.Busy, 0)
	m.Lane("deploys/shop", observe.Lost, 0)
	m.Model(observe.ModelCall{Provider: "openai", Model: `the "best" \ one` + "\n", Took: time.Second, Input: 10, Output: 2, CacheRead: 3, CacheWrite: 1})
	m.Model(observe.ModelCall{Provider: "openai", Model: "small", Took: time.Hour, Class: "overloaded"})
	m.Spent("small", 1_250_000)
	for _, o := range []observe.WebhookOutcome{observe.Verified, observe.Duplicate, observe.Rejected} {
		m.Webhook("github", o)
	}
	m.Outbox("spawn", "sent")
	m.Outbox("spawn", "ready")
	m.Beat("idle", 30*time.Millisecond)
	m.ValkeyUnreachable()
	m.Spans(40, 2)
	m.Database(12, 3)
}

func text(t *testing.T, m *observe.Meters, gauges ...observe.Sample) observetest.Text {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b, gauges); err != nil {
		t.Fatal(err)
	}
	got, err := observetest.Parse(b.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return got
}

func TestText(t *testing.T) {
	m := observe.New()
	used(m)
	got := text(t, m)
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{1, "coordinator_cycle_duration_seconds_count", nil},
		{1.5, "coordinator_cycle_duration_seconds_sum", nil},
		{0, "coordinator_cycle_duration_seconds_bucket", []string{"le", "1"}},
		{1, "coordinator_cycle_duration_seconds_bucket", []string{"le", "2.5"}},
		{1, "coordinator_cycle_duration_seconds_bucket", []string{"le", "+Inf"}},
		{1, "coordinator_busy_total", nil},
		{1, "coordinator_errors_total", nil},
		{3, "agents_spawned_total", []string{"spawner", "pull"}},
		{1, "tasks_recovered_total", nil},
		{1, "lane_wait_seconds_bucket", []string{"lane", "objective", "le", "0.025"}},
		{2, "lane_held_seconds_sum", []string{"lane", "objective"}},
		{1, "lane_busy_total", []string{"lane", "coordinator"}},
		{1, "lane_lost_total", []string{"lane", "other"}},
		{0, "llm_latency_seconds_bucket", []string{"provider", "openai", "model", "small", "le", "900"}},
		{1, "llm_latency_seconds_bucket", []string{"provider", "openai", "model", "small", "le", "+Inf"}},
		{1, "llm_errors_total", []string{"provider", "openai", "model", "small", "class", "overloaded"}},
		{3, "llm_tokens_total", []string{"model", `the "best" \ one` + "\n", "kind", "cache_read"}},
		{1.25, "llm_cost_usd_total", []string{"model", "small"}},
		{1, "webhook_verified_total", []string{"kind", "github"}},
		{1, "webhook_duplicate_total", []string{"kind", "github"}},
		{1, "webhook_rejected_total", []string{"kind", "github"}},
		{1, "outbox_sent_total", []string{"topic", "spawn"}},
		{1, "outbox_unsent_total", []string{"topic", "spawn", "status", "ready"}},
		{0.03, "heartbeat_duration_seconds_sum", []string{"outcome", "idle"}},
		{1, "valkey_connection_errors_total", nil},
		{40, "spans_exported_total", nil},
		{2, "spans_dropped_total", nil},
		{12, "database_statements_total", nil},
		{3, "database_round_trips_total", nil},
	} {
		if v, ok := got.Value(want.name, want.labels...); !ok || v != want.value {
			t.Errorf("%s%q is %v (there: %t), want %v", want.name, want.labels, v, ok, want.value)
		}
	}
}

// The text of the format's own description is accepted, and what differs from the format is not.
func TestTheParserIsStrict(t *testing.T) {
	const good = "# HELP a_total A\n# TYPE a_total counter\na_total{x=\"1\"} 2\n"
	if _, err := observetest.Parse(good); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]string{
		"no end":          strings.TrimSuffix(good, "\n"),
		"twice":           good + "a_total{x=\"1\"} 2\n",
		"no type":         "a 1\n",
		"escape":          "# HELP a A\n# TYPE a gauge\na{x=\"\\t\"} 2\n",
		"open label":      "# HELP a A\n# TYPE a gauge\na{x=\"1} 2\n",
		"counter's name":  "# HELP a A\n# TYPE a counter\na 2\n",
		"negative":        "# HELP a_total A\n# TYPE a_total counter\na_total -1\n",
		"no number":       "# HELP a A\n# TYPE a gauge\na x\n",
		"other's samples": "# HELP a A\n# TYPE a gauge\nb 1\n",
		"falling buckets": "# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
		"no last bucket":  "# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"2\"} 1\na_sum 1\na_count 1\n",
		"another count":   "# HELP a A\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
	} {
		if _, err := observetest.Parse(bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestNothingIsCountedWithoutMeters(t *testing.T) {
	var m *observe.Meters
	used(m)
	if err := m.Line(&bytes.Buffer{}, "f", time.Now()); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := m.Write(&b, nil); err != nil || b.Len() > 0 {
		t.Errorf("%v, %q", err, b.String())
	}
}

// Values of labels that nobody expected become one series, so that neither the process nor a scrape
// grows.
func TestSeriesAreBounded(t *testing.T) {
	m := observe.New()
	for i := range 10_000 {
		m.Model(observe.ModelCall{Provider: "p", Model: fmt.Sprintf("m%d", i), Input: 1})
		m.Lane(fmt.Sprintf("lane-%d", i), observe.Busy, 0)
	}
	got := text(t, m)
	if n := len(got.Series); n > 5_000 {
		t.Errorf("%d series", n)
	}
	if v, _ := got.Value("llm_tokens_total", "model", "other", "kind", "other"); v != 10_000-100 {
		t.Errorf("%v tokens are of other models", v)
	}
	if v, _ := got.Value("lane_busy_total", "lane", "other"); v != 10_000 {
		t.Errorf("%v refusals are of other lanes", v)
	}
}

func TestCountingAtOnce(t *testing.T) {
	m := observe.NewLines()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				used(m)
			}
		})
		wg.Go(func() {
			for range 20 {
				_ = m.Write(&bytes.Buffer{}, nil)
				_ = m.Line(&bytes.Buffer{}, "f", time.Now())
			}
		})
	}
	wg.Wait()
	if v, _ := text(t, m).Value("agents_spawned_total", "spawner", "pull"); v != 8*200*3 {
		t.Errorf("%v attempts", v)
	}
}

// line is a line in the embedded metric format.
type line struct {
	AWS struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	} `json:"_aws"`
	FunctionName string
}

func TestLine(t *testing.T) {
	m := observe.NewLines()
	used(m)
	m.Cycle(observe.Cycle{Took: 10 * time.Millisecond})
	var b bytes.Buffer
	now := time.UnixMilli(1_800_000_000_000)
	if err := m.Line(&b, "stack-coordinator", now); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 1 || !strings.HasSuffix(b.String(), "\n") {
		t.Fatalf("it is not one line: %q", b.String())
	}
	var got line
	var values map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &values); err != nil {
		t.Fatal(err)
	}
	if got.AWS.Timestamp != now.UnixMilli() || got.FunctionName != "stack-coordinator" || len(got.AWS.CloudWatchMetrics) != 1 {
		t.Fatalf("%s", b.String())
	}
	directive := got.AWS.CloudWatchMetrics[0]
	if directive.Namespace != "Lanekeeper" || !cmp.Equal(directive.Dimensions, [][]string{{"FunctionName"}}) {
		t.Errorf("%+v", directive)
	}
	units := map[string]string{}
	for _, metric := range directive.Metrics {
		units[metric.Name] = metric.Unit
		switch v := values[metric.Name].(type) {
		case float64:
		case []any:
			if len(v) == 0 || len(v) > 100 {
				t.Errorf("%s has %d values", metric.Name, len(v))
			}
		default:
			t.Errorf("%s is %v", metric.Name, v)
		}
	}
	if len(units) > 100 || len(units) != len(values)-2 {
		t.Errorf("%d metrics of %d values", len(units), len(values))
	}
	for name, want := range map[string]struct {
		unit  string
		value any
	}{
		"coordinator.cycle.duration_ms": {"Milliseconds", []any{1500.0, 10.0}},
		"agents.spawned.count":          {"Count", 5.0},
		"webhook.rejected.count":        {"Count", 1.0},
		"valkey.connection.errors":      {"Count", 1.0},
		"llm.cost_usd":                  {"None", 1.25},
		"llm.tokens.count":              {"Count", 16.0},
	} {
		if units[name] != want.unit || !cmp.Equal(values[name], want.value) {
			t.Errorf("%s is %v %s, want %v %s", name, values[name], units[name], want.value, want.unit)
		}
	}
	b.Reset()
	if err := m.Line(&b, "f", now); err != nil || b.Len() > 0 {
		t.Errorf("what was told is told again: %v, %s", err, b.String())
	}
	m.CycleBusy()
	if err := m.Line(&b, "f", now); err != nil || !strings.Contains(b.String(), `"coordinator.busy.count":1`) {
		t.Errorf("%v, %s", err, b.String())
	}
}
