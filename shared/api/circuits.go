package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// circuitItem is the circuit breaker of a model, in a state other than closed.
type circuitItem struct {
	Name   string          `json:"name" doc:"By which it is reset: the provider with a mark of its key and address, a slash, the model"`
	State  resilient.State `json:"state" enum:"open,half_open,paused" doc:"open: it failed too often; half_open: one call finds out whether it is back; paused: it refuses us, a person has to act"`
	Reason llm.ErrorClass  `json:"reason" doc:"The class of its last failure, such as unavailable, authentication or billing"`
	Since  *time.Time      `json:"since,omitempty"`
	Until  *time.Time      `json:"until,omitempty" doc:"When a call is let through on trial"`
}

// maxCircuits is the most circuits that one listing reads.
const maxCircuits = 1000

// circuits returns up to limit circuits of the workspace that are not closed.
func (s *server) circuits(ctx context.Context, limit int) ([]circuitItem, error) {
	found, err := s.Circuits.List(ctx, workspace(ctx), limit)
	items := make([]circuitItem, 0, len(found))
	for _, c := range found {
		items = append(items, circuitItem{Name: c.Key.String(), State: c.State, Reason: c.Class, Since: utc(c.OpenedAt), Until: utc(c.RetryAt)})
	}
	return items, err
}

type circuitsInput struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listCircuits lists the circuits that are not closed, by name. It is called by lanekeeper
// circuits.
func (s *server) listCircuits(ctx context.Context, in *circuitsInput) (*answer[page[circuitItem]], error) {
	all, err := s.circuits(ctx, maxCircuits)
	if err != nil {
		return nil, err
	}
	return slicePage(all, in.Cursor, in.Limit)
}

type circuitPath struct {
	Name string `path:"name" maxLength:"600" doc:"Its name; a / in it is %2F in a URL"`
}

// resetCircuit closes a circuit. Every process calls the model again when its cached state has expired, and the
// turns and tasks that wait for the model are tried then. It is called through lanekeeper circuits, by a person who
// has fixed the cause.
func (s *server) resetCircuit(ctx context.Context, in *circuitPath) (*struct{}, error) {
	return nil, s.change(ctx, "circuit.reset", func(ctx context.Context, tx *db.Tx) error {
		if s.Outbox != nil {
			for _, topic := range []string{turn.Topic, worker.Topic} {
				s.Outbox.AllDueIn(tx.Later(), topic, resilient.Noticed)
			}
		}
		return s.Circuits.Reset(ctx, tx, resilient.ParseKey(in.Name))
	}, "name", in.Name)
}
