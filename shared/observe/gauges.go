package observe

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var files embed.FS

// gauges are what rows tell.
var gauges = []*instrument{
	{kind: gauge, name: "tasks.pending.count", help: "Tasks that wait to be assigned."},
	{kind: gauge, name: "tasks.assigned.count", help: "Tasks that an agent is to begin."},
	{kind: gauge, name: "tasks.running.count", help: "Tasks that agents work on."},
	{kind: gauge, name: "tasks.paused.count", help: "Tasks that are paused, by a person or by a budget."},
	{kind: gauge, name: "tasks.failed.count", help: "Tasks that failed within the last hour."},
	{kind: gauge, name: "tasks.retry.exhausted.count", help: "Tasks that failed within the last hour after their last retry."},
	{kind: gauge, name: "agents.count", labels: []string{"status"}, help: "Registered agents that are not terminated."},
	{kind: gauge, name: "coordinator.stale_agents.count", help: "Agents of which nothing was heard for longer than their threshold."},
	{kind: gauge, name: "lane.active.count", help: "Lanes that are held."},
	{kind: gauge, name: "approvals.pending.count", help: "Calls of skills that wait for a person."},
	{kind: gauge, name: "outbox.lag_ms", help: "How long ago the row of the outbox became due that waits for longest."},
	{kind: gauge, name: "inbox.lag_ms", help: "How long ago the webhook was received that waits for longest."},
}

func gaugeOf(name string) *instrument {
	at := slices.IndexFunc(gauges, func(i *instrument) bool { return i.name == name })
	if at < 0 {
		return nil
	}
	return gauges[at]
}

// A Sample is the present value of a gauge.
type Sample struct {
	of     *instrument
	values []string // of the labels
	// Value is in base units.
	Value float64
}

// Name returns the dotted name of the gauge.
func (s Sample) Name() string { return s.of.name }

// Gauges reads what rows tell. It is safe for concurrent use.
type Gauges struct {
	db *db.DB
	q  struct{ Read db.Query }
}

// NewGauges returns the gauges of a database.
func NewGauges(d *db.DB) (*Gauges, error) {
	g := &Gauges{db: d}
	return g, db.Load(files, &g.q)
}

// Read reads the gauges of a workspace in one statement; with "", those of all workspaces together.
func (g *Gauges) Read(ctx context.Context, ws db.Workspace) ([]Sample, error) {
	var out []Sample
	err := g.db.Each(ctx, ws, func(scan db.Scan) error {
		var name, label string
		var value float64
		if err := scan(&name, &label, &value); err != nil {
			return err
		}
		i := gaugeOf(name)
		if i == nil {
			return fmt.Errorf("there is no gauge %s", name)
		}
		s := Sample{of: i, Value: value}
		if len(i.labels) > 0 {
			s.values = []string{label}
		}
		out = append(out, s)
		return nil
	}, g.q.Read, ws)
	if err != nil {
		return nil, fmt.Errorf("read the gauges: %w", err)
	}
	return out, nil
}

// Set reads the gauges of all workspaces together, and sets them.
func (g *Gauges) Set(ctx context.Context, m *Meters) error {
	samples, err := g.Read(ctx, "")
	if err == nil {
		m.Set(samples)
	}
	return err
}
