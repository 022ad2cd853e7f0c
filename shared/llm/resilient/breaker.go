package resilient

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

const (
	// fresh is how long what was read of a circuit is believed.
	fresh = 30 * time.Second
	// databaseLimit ends a statement about a circuit: no call is to wait for it long.
	databaseLimit = 2 * time.Second
	// leaseMargin is how much longer than a try may be silent a probe is ours alone.
	leaseMargin = 15 * time.Second
)

// breaker is what one workspace's model knows of its circuits.
type breaker struct {
	cfg *Config
	ws  db.Workspace

	mu   sync.Mutex
	seen map[Key]sighting
}

// sighting is a circuit as it was at a time.
type sighting struct {
	Circuit
	at time.Time
}

// look is a circuit as it should be now, and how long it stays as it is.
func (b *breaker) look(k Key) (Circuit, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[k]
	if !known {
		return Circuit{Key: k, State: Closed}, 0
	}
	return s.Circuit, s.RetryIn - b.cfg.Clock().Sub(s.at)
}

// shut reports whether the circuit keeps calls from its model for now.
func (b *breaker) shut(k Key) bool {
	c, left := b.look(k)
	return c.State != Closed && left > 0
}

// note keeps circuits as they were at some time after asked. What another call has
// noted since then with more failures is newer.
func (b *breaker) note(asked time.Time, circuits ...Circuit) {
	now := b.cfg.Clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range circuits {
		if s := b.seen[c.Key]; !s.at.After(asked) || s.Failures <= c.Failures {
			b.seen[c.Key] = sighting{c, now}
		}
	}
}

// read brings the circuits of targets up to date where they are unknown or known
// for too long.
func (b *breaker) read(ctx context.Context, targets []target) {
	if b.cfg.Circuits == nil {
		return
	}
	now := b.cfg.Clock()
	var keys []Key
	b.mu.Lock()
	for _, t := range targets {
		if s, known := b.seen[t.key]; !known || now.Sub(s.at) >= fresh {
			keys = append(keys, t.key)
		}
	}
	b.mu.Unlock()
	if len(keys) > 0 {
		b.load(ctx, keys)
	}
}

func (b *breaker) load(ctx context.Context, keys []Key) {
	asked := b.cfg.Clock()
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	circuits, err := b.cfg.Circuits.Load(ctx, b.ws, keys)
	if err != nil {
		b.complain(ctx, err)
		for _, k := range keys { // what is known goes on to hold; not asked again before long
			c, left := b.look(k)
			c.RetryIn = left
			circuits = append(circuits, c)
		}
	}
	b.note(asked, circuits...)
}

// admit lets a call through, perhaps as a probe, or says why not.
func (b *breaker) admit(ctx context.Context, t target) (probe bool, err error) {
	c, left := b.look(t.key)
	switch {
	case c.State == Closed:
		return false, nil
	case left > 0:
		return false, c.refusal(t.Name(), left)
	}
	lease := b.cfg.Silence + leaseMargin
	// The caller's end does not cut this off: whether the probe is ours would be open,
	// and nobody would give it back.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseLimit)
	defer cancel()
	claimed, err := b.cfg.Circuits.Claim(limited, b.ws, t.key, lease)
	if err != nil {
		b.complain(ctx, err)
		return false, nil
	}
	if claimed {
		c.State, c.RetryIn = HalfOpen, lease
		b.note(b.cfg.Clock(), c)
		b.cfg.Log.InfoContext(ctx, "circuit probed", "provider", t.key.Provider, "model", t.key.Model)
		return true, nil
	}
	b.load(ctx, []Key{t.key}) // somebody else was first
	if c, left = b.look(t.key); c.State != Closed {
		return false, c.refusal(t.Name(), max(left, 0))
	}
	return false, nil
}

// learn tells the circuit how a try ended. What the end of the caller's own context
// caused says nothing of the provider.
func (b *breaker) learn(ctx context.Context, t target, probe bool, err error) {
	if b.cfg.Circuits == nil {
		return
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseLimit)
	defer cancel()
	switch class := llm.ClassOf(err); {
	case err == nil, class == llm.ClassBadRequest, class == llm.ClassContextTooLong, class == llm.ClassRefused:
		b.succeeded(saving, t, probe)
	case class == llm.ClassRateLimit: // it is there, and has enough of us
		if probe {
			b.succeeded(saving, t, probe)
		}
	case lasting(class), ctx.Err() == nil && class.Retryable():
		b.failed(saving, t, err)
	case probe:
		if err := b.cfg.Circuits.GiveBack(saving, b.ws, t.key); err != nil {
			b.complain(ctx, err)
		}
		c, _ := b.look(t.key)
		c.State, c.RetryIn = Open, 0
		b.note(b.cfg.Clock(), c)
	}
}

func (b *breaker) succeeded(ctx context.Context, t target, probe bool) {
	c, _ := b.look(t.key)
	if !probe && c.State == Closed && c.Failures == 0 {
		return
	}
	if err := b.cfg.Circuits.Succeeded(ctx, b.ws, t.key); err != nil {
		b.complain(ctx, err)
		return
	}
	if c.State != Closed {
		b.cfg.Log.InfoContext(ctx, "circuit closed", "provider", t.key.Provider, "model", t.key.Model)
	}
	b.note(b.cfg.Clock(), Circuit{Key: t.key, State: Closed})
}

func (b *breaker) failed(ctx context.Context, t target, err error) {
	asked := b.cfg.Clock()
	before, _ := b.look(t.key)
	c, err := b.cfg.Circuits.Failed(ctx, b.ws, t.key, llm.ClassOf(err), retryAfter(err))
	if err != nil {
		b.complain(ctx, err)
		return
	}
	b.note(asked, c)
	if c.State != Closed && c.State != before.State {
		b.cfg.Log.WarnContext(ctx, "circuit opened", "provider", t.key.Provider, "model", t.key.Model, "state", c.State,
			"failures", c.Failures, "class", c.Class, "retry_in_ms", c.RetryIn.Milliseconds())
	}
}

// complain logs a failure of the database, which no call fails for.
func (b *breaker) complain(ctx context.Context, err error) {
	b.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "circuits can't be kept", slog.Any("error", err))
}
