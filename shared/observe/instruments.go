package observe

import (
	"strings"
	"time"
)

// The bounds of histograms, in seconds.
var (
	short = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	long  = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900}
)

var (
	cycleDuration = &instrument{
		name: "coordinator.cycle.duration_ms", kind: histogram, bounds: short,
		help: "How long a cycle of the coordinator took in one workspace.",
	}
	cyclesBusy = &instrument{
		name: "coordinator.busy.count", kind: counter,
		help: "Cycles that did not begin because another instance had the workspace.",
	}
	cyclesFailed = &instrument{
		name: "coordinator.errors.count", kind: counter,
		help: "Cycles that failed.",
	}
	agentsSpawned = &instrument{
		name: "agents.spawned.count", kind: counter, labels: []string{"spawner"},
		help: "Attempts that were handed to an agent.",
	}
	tasksRecovered = &instrument{
		name: "tasks.recovered.count", kind: counter,
		help: "Attempts that were given up because their agent was lost or late.",
	}

	lanesAcquired = &instrument{
		name: "lane.wait_ms", kind: histogram, labels: []string{"lane"}, bounds: short,
		help: "How long it took to acquire a lane, waiting included.",
	}
	lanesHeld = &instrument{
		name: "lane.held_ms", kind: histogram, labels: []string{"lane"}, bounds: long,
		help: "How long a lane was held until it was released.",
	}
	lanesBusy = &instrument{
		name: "lane.busy.count", kind: counter, labels: []string{"lane"},
		help: "Requests for a lane that were refused because somebody held it.",
	}
	lanesLost = &instrument{
		name: "lane.lost.count", kind: counter, labels: []string{"lane"},
		help: "Holders that found their lane lost.",
	}

	modelLatency = &instrument{
		name: "llm.latency_ms", kind: histogram, labels: []string{"provider", "model"}, bounds: long,
		help: "How long a request to a model took, with its retries.",
	}
	modelErrors = &instrument{
		name: "llm.errors.count", kind: counter, labels: []string{"provider", "model", "class"},
		help: "Requests to models that failed after their retries, by the class of the error.",
	}
	modelTokens = &instrument{
		name: "llm.tokens.count", kind: counter, labels: []string{"model", "kind"},
		help: "Tokens that models used: input, output, cache_read, cache_write.",
	}
	modelCost = &instrument{
		name: "llm.cost_usd", kind: counter, labels: []string{"model"},
		help: "What models cost, in US dollars, by the table of prices.",
	}

	webhooksVerified = &instrument{
		name: "webhook.verified.count", kind: counter, labels: []string{"kind"},
		help: "Webhooks with a good signature that were stored.",
	}
	webhooksDuplicate = &instrument{
		name: "webhook.duplicate.count", kind: counter, labels: []string{"kind"},
		help: "Webhooks with a good signature that were stored before.",
	}
	webhooksRejected = &instrument{
		name: "webhook.rejected.count", kind: counter, labels: []string{"kind"},
		help: "Webhooks with a wrong signature.",
	}
	outboxSent = &instrument{
		name: "outbox.sent.count", kind: counter, labels: []string{"topic"},
		help: "Rows of the outbox that were handled.",
	}
	outboxUnsent = &instrument{
		name: "outbox.unsent.count", kind: counter, labels: []string{"topic", "status"},
		help: "Attempts to handle a row of the outbox that did not, by what became of the row; ready: it is tried again.",
	}
	beats = &instrument{
		name: "heartbeat.duration_ms", kind: histogram, labels: []string{"outcome"}, bounds: long,
		help: "How long a heartbeat took in one workspace.",
	}
	valkeyErrors = &instrument{
		name: "valkey.connection.errors", kind: counter,
		help: "Calls and checks in which Valkey could not be reached.",
	}
	spansExported = &instrument{
		name: "spans.exported.count", kind: counter,
		help: "Spans that the receiver of OTLP has taken.",
	}
	spansDropped = &instrument{
		name: "spans.dropped.count", kind: counter,
		help: "Spans that were dropped, because too many were waiting or the receiver did not take them.",
	}
	statements = &instrument{
		name: "database.statements.count", kind: counter,
		help: "SQL statements that this process sent.",
	}
	roundTrips = &instrument{
		name: "database.round_trips.count", kind: counter,
		help: "Round trips to the database that this process made.",
	}
)

// Names returns the dotted names of all instruments, in which CloudWatch knows them.
func Names() []string {
	all := append([]*instrument{
		cycleDuration, cyclesBusy, cyclesFailed, agentsSpawned, tasksRecovered, lanesAcquired, lanesHeld, lanesBusy, lanesLost,
		modelLatency, modelErrors, modelTokens, modelCost, webhooksVerified, webhooksDuplicate, webhooksRejected,
		outboxSent, outboxUnsent, beats, valkeyErrors, spansExported, spansDropped, statements, roundTrips,
	}, gauges...)
	names := make([]string, len(all))
	for at, i := range all {
		names[at] = i.name
	}
	return names
}

// A Cycle is what the coordinator did in one workspace.
type Cycle struct {
	Took      time.Duration
	Spawned   map[string]int // attempts by spawner
	Recovered int
}

// CycleBusy counts a cycle that did not begin, because another instance had the workspace.
func (m *Meters) CycleBusy() { m.add(cyclesBusy, 1) }

// CycleFailed counts a cycle that failed.
func (m *Meters) CycleFailed() { m.add(cyclesFailed, 1) }

// Cycle counts a cycle of the coordinator that was done.
func (m *Meters) Cycle(c Cycle) {
	m.took(cycleDuration, c.Took)
	for spawner, n := range c.Spawned {
		m.add(agentsSpawned, float64(n), spawner)
	}
	m.add(tasksRecovered, float64(c.Recovered))
}

// A LaneEvent is what happened to a request for a lane, or to a hold.
type LaneEvent string

// What [Meters.Lane] counts.
const (
	Acquired LaneEvent = "acquired" // after a wait
	Busy     LaneEvent = "busy"
	Released LaneEvent = "released" // after it was held for a time
	Lost     LaneEvent = "lost"
)

// Lane counts what happened to a lane. Lanes are told apart by their kind: what stands before the
// colon of a name that is ours.
func (m *Meters) Lane(name string, event LaneEvent, took time.Duration) {
	name, _, _ = strings.Cut(name, ":")
	switch name {
	case "heartbeat", "operate", "coordinator", "objective", "automation", "execution", "approval", "memory", "session", "task", "health":
	default:
		name = other // callers of the API name lanes as they like
	}
	switch event {
	case Acquired:
		m.took(lanesAcquired, took, name)
	case Released:
		m.took(lanesHeld, took, name)
	case Busy:
		m.add(lanesBusy, 1, name)
	case Lost:
		m.add(lanesLost, 1, name)
	}
}

// A ModelCall is one request to a model, with its retries.
type ModelCall struct {
	Provider, Model                      string // as configured
	Class                                string // of the error; "": it answered
	Took                                 time.Duration
	Input, Output, CacheRead, CacheWrite int // tokens
}

// Model counts a call of a model.
func (m *Meters) Model(c ModelCall) {
	m.took(modelLatency, c.Took, c.Provider, c.Model)
	if c.Class != "" {
		m.add(modelErrors, 1, c.Provider, c.Model, c.Class)
	}
	m.add(modelTokens, float64(c.Input), c.Model, "input")
	m.add(modelTokens, float64(c.Output), c.Model, "output")
	m.add(modelTokens, float64(c.CacheRead), c.Model, "cache_read")
	m.add(modelTokens, float64(c.CacheWrite), c.Model, "cache_write")
}

// Spent counts what a call of a model cost, in millionths of a dollar.
func (m *Meters) Spent(model string, microUSD int64) { m.add(modelCost, float64(microUSD)/1e6, model) }

// A WebhookOutcome says what became of a webhook.
type WebhookOutcome string

// What [Meters.Webhook] counts.
const (
	Verified  WebhookOutcome = "verified" // and stored
	Duplicate WebhookOutcome = "duplicate"
	Rejected  WebhookOutcome = "rejected" // for its signature
)

// Webhook counts a webhook of a known source by the source's kind.
func (m *Meters) Webhook(kind string, outcome WebhookOutcome) {
	of := map[WebhookOutcome]*instrument{Verified: webhooksVerified, Duplicate: webhooksDuplicate, Rejected: webhooksRejected}[outcome]
	m.add(of, 1, kind)
}

// Outbox counts an attempt to handle a row of the outbox by the status that it left.
func (m *Meters) Outbox(topic, status string) {
	if status == "sent" {
		m.add(outboxSent, 1, topic)
		return
	}
	m.add(outboxUnsent, 1, topic, status)
}

// Beat counts a heartbeat of one workspace.
func (m *Meters) Beat(outcome string, took time.Duration) { m.took(beats, took, outcome) }

// ValkeyUnreachable counts a call or a check in which Valkey could not be reached.
func (m *Meters) ValkeyUnreachable() { m.add(valkeyErrors, 1) }

// Spans counts spans that were exported and dropped.
func (m *Meters) Spans(exported, dropped int) {
	m.add(spansExported, float64(exported))
	m.add(spansDropped, float64(dropped))
}

// Database takes over the counters of the database, which count since the process began.
func (m *Meters) Database(sent, trips int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, total := range map[*instrument]int64{statements: sent, roundTrips: trips} {
		s := m.at(i, nil)
		s.growth += max(0, float64(total)-s.value)
		s.value = max(s.value, float64(total))
	}
}
