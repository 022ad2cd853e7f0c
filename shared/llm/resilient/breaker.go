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
	// fresh is how long a circuit that was read from the database stays valid.
	fresh = 30 * time.Second
	// Noticed is how long it does if it is not closed, so that a reset is noticed after it.
	Noticed = 2 * time.Second
	// databaseLimit is the timeout of a statement about a circuit. A call must not wait long for
	// it.
	databaseLimit = 2 * time.Second
	// leaseMargin is added to Config.Silence to get the lease of a probe.
	leaseMargin = 15 * time.Second
)

// breaker is a cache of the circuits of one workspace's model.
type breaker struct {
	cfg *Config
	ws  db.Workspace

	mu   sync.Mutex
	seen map[Key]sighting
}

// sighting is a circuit and the time when it was read.
type sighting struct {
	Circuit
	at time.Time
}

// look returns the cached circuit, and the time left until its RetryAt.
func (b *breaker) look(k Key) (Circuit, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[k]
	if !known {
		return Circuit{Key: k, State: Closed}, 0
	}
	return s.Circuit, s.RetryIn - b.cfg.Clock().Sub(s.at)
}

// shut reports whether the circuit currently refuses calls to its model.
func (b *breaker) shut(k Key) bool {
	c, left := b.look(k)
	return c.State != Closed && left > 0
}

// note caches circuits that were read after asked. It keeps a cached circuit that is newer and has
// more failures: another call has stored it in the meantime.
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

// read loads the circuits of targets that are not cached, or cached for too long.
func (b *breaker) read(ctx context.Context, targets []target) {
	if b.cfg.Circuits == nil {
		return
	}
	now := b.cfg.Clock()
	var keys []Key
	b.mu.Lock()
	for _, t := range targets {
		s, known := b.seen[t.key]
		valid := fresh
		if s.State != Closed {
			valid = Noticed
		}
		if !known || now.Sub(s.at) >= valid {
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
		for _, k := range keys { // keep the cached state, and don't ask again for a while
			c, left := b.look(k)
			c.RetryIn = left
			circuits = append(circuits, c)
		}
	}
	b.note(asked, circuits...)
}

// admit returns nil if the call may go ahead, and whether the call is a probe. Otherwise it returns
// an error that wraps [ErrOpen].
func (b *breaker) admit(ctx context.Context, t target) (probe bool, err error) {
	c, left := b.look(t.key)
	switch {
	case c.State == Closed:
		return false, nil
	case left > 0:
		return false, c.refusal(t.Name(), left)
	}
	lease := b.cfg.Silence + leaseMargin
	// The caller's cancellation must not interrupt this statement. Otherwise the probe might be
	// claimed without our knowledge, and nobody would release it.
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
	b.load(ctx, []Key{t.key}) // another call claimed the probe first
	if c, left = b.look(t.key); c.State != Closed {
		return false, c.refusal(t.Name(), max(left, 0))
	}
	return false, nil
}

// learn updates the circuit with the outcome of a try. An error that is caused by the caller's own
// context says nothing about the provider.
func (b *breaker) learn(ctx context.Context, t target, probe bool, err error) {
	if b.cfg.Circuits == nil {
		return
	}
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseLimit)
	defer cancel()
	switch class := llm.ClassOf(err); {
	case err == nil, class == llm.ClassBadRequest, class == llm.ClassContextTooLong, class == llm.ClassRefused:
		b.succeeded(saving, t, probe)
	case class == llm.ClassRateLimit: // the provider works, but limits us
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
	var also func(*db.Batch)
	if c.State != Closed {
		also = b.cfg.Closed
	}
	if err := b.cfg.Circuits.Succeeded(ctx, b.ws, t.key, also); err != nil {
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

// complain logs a failure of the database. Such a failure does not fail the call.
func (b *breaker) complain(ctx context.Context, err error) {
	b.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "circuits can't be kept", slog.Any("error", err))
}
