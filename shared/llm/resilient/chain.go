package resilient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Provider is one of the models of a [Chain].
type Provider struct {
	Model llm.Model
	// ID selects one of the provider's models. The first provider uses it only if the request names
	// no model. All others always use it.
	ID string
	// Circuit names the circuit; empty: the model's name. A model with another key or address needs
	// another name, so that the failures of one do not block the other.
	Circuit string
}

// Config configures a [Chain]. Zero values mean the defaults.
type Config struct {
	Providers []Provider // the preferred one first
	Circuits  Circuits   // nil: no circuits
	Log       *slog.Logger
	// Observe is called for every provider that was asked, and for each one that was skipped
	// because of an open circuit. The calls happen before Generate returns.
	Observe func(context.Context, Call)
	// Stopped says why a workspace's calls must not fall back to a model. models are the model's id
	// and its provider's name. An empty reason allows the fallback. A nil Stopped allows all.
	Stopped func(ctx context.Context, ws db.Workspace, models ...string) (string, error)

	// Closed adds to the batch that closes the circuit of a model that what waits for it goes on. Nil: nothing waits.
	Closed func(*db.Batch)

	Tries      int           // tries per provider: 3
	Silence    time.Duration // silence that ends a try, at its beginning or between two pieces of the answer: 90 s
	Backoff    time.Duration // maximum before the second try, doubled before each next one: 500 ms
	MaxBackoff time.Duration // 8 s
	MaxWait    time.Duration // a longer wait is not begun: 30 s

	Clock func() time.Time
	Rand  func() float64 // in [0, 1)

	fixed *sync.Map // by Key: the models that take no temperature
}

// Call is the outcome of asking one provider.
type Call struct {
	Workspace db.Workspace
	Provider  string         // its name
	Model     string         // that answered, or was requested
	Fallback  bool           // it was not the first in the chain
	Class     llm.ErrorClass // of Err
	Err       error          // nil: it answered
	Tries     int            // 0: its circuit was open
	Took      time.Duration  // includes the waits between the tries
	Usage     llm.Usage
}

// Chain is a list of models that are asked in order until one answers. It is safe for concurrent
// use.
type Chain struct{ cfg *Config }

// New returns a chain. Clock, Rand and Log are required.
func New(cfg Config) (*Chain, error) {
	if len(cfg.Providers) == 0 {
		return nil, errors.New("a chain of models needs one")
	}
	if cfg.Clock == nil || cfg.Rand == nil || cfg.Log == nil {
		return nil, errors.New("a chain of models needs a clock, a source of randomness and a log")
	}
	cfg.Tries = cmp.Or(cfg.Tries, 3)
	cfg.Silence = cmp.Or(cfg.Silence, 90*time.Second)
	cfg.Backoff = cmp.Or(cfg.Backoff, 500*time.Millisecond)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 8*time.Second)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 30*time.Second)
	cfg.fixed = &sync.Map{}
	if cfg.Observe == nil {
		cfg.Observe = func(context.Context, Call) {}
	}
	return &Chain{&cfg}, nil
}

// For returns the chain as one model, for calls on behalf of a workspace.
func (c *Chain) For(ws db.Workspace) *Model {
	return &Model{cfg: c.cfg, breaker: breaker{cfg: c.cfg, ws: ws, seen: map[Key]sighting{}}}
}

// target is a provider with the model to request.
type target struct {
	llm.Model
	key      Key
	fallback bool
}

// targets returns the providers for a request.
func (c *Config) targets(req llm.Request) []target {
	out := make([]target, len(c.Providers))
	for i, p := range c.Providers {
		id := p.ID
		if i == 0 {
			id = cmp.Or(req.Model, p.ID)
		}
		out[i] = target{p.Model, Key{cmp.Or(p.Circuit, p.Model.Name()), id}, i > 0}
	}
	return out
}
