package resilient

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Provider is one of the models of a [Chain].
type Provider struct {
	Model llm.Model
	// ID is which of the provider's models to ask for. Of the first provider it is
	// so where the request names none; the others are always asked for theirs.
	ID string
	// Circuit names the circuit; empty: as the model. What has another key or
	// address deserves another name: what the old one did must not keep it out.
	Circuit string
}

// Config is what a [Chain] is made of. Zeros mean the defaults.
type Config struct {
	Providers []Provider // the first choice first
	Circuits  Circuits   // nil: none are kept
	Log       *slog.Logger
	// Observe is told of every provider that was asked, and of those that an open
	// circuit kept from it, before Generate returns.
	Observe func(context.Context, Call)
	// Stopped says why a workspace's calls are not to fall back to a model, which goes
	// by its id and its provider's name; empty: they may. nil: they always may.
	Stopped func(ctx context.Context, ws db.Workspace, models ...string) (string, error)

	Tries      int           // of one provider: 3
	Silence    time.Duration // that ends a try, at its beginning or between two pieces of the answer: 90 s
	Backoff    time.Duration // up to so long before the second try, and twice as long before the next: 500 ms
	MaxBackoff time.Duration // 8 s
	MaxWait    time.Duration // what asks for more is not waited for: 30 s

	Clock func() time.Time
	Rand  func() float64 // from 0 up to 1
}

// Call is what became of asking one provider.
type Call struct {
	Workspace db.Workspace
	Provider  string         // its name
	Model     string         // that answered, or was asked for
	Fallback  bool           // it was not the first choice
	Class     llm.ErrorClass // of Err
	Err       error          // nil: it answered
	Tries     int            // 0: its circuit was open
	Took      time.Duration  // with the waits between the tries
	Usage     llm.Usage
}

// Chain is a list of models of which one is to answer. It is safe for concurrent
// use.
type Chain struct{ cfg *Config }

// New makes a chain. Clock, Rand and Log have no defaults.
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
	if cfg.Observe == nil {
		cfg.Observe = func(context.Context, Call) {}
	}
	return &Chain{&cfg}, nil
}

// For is the chain as one model, for calls on behalf of a workspace.
func (c *Chain) For(ws db.Workspace) *Model {
	return &Model{cfg: c.cfg, breaker: breaker{cfg: c.cfg, ws: ws, seen: map[Key]sighting{}}}
}

// target is a provider with what it is asked for.
type target struct {
	llm.Model
	key      Key
	fallback bool
}

// targets are the providers for a request.
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
