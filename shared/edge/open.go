package edge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// An opener opens the database and builds the handler when an invocation first needs them, and keeps
// them for later invocations.
type opener[T any] struct {
	*Sandbox
	build func(*app.Core) (T, error)
	turn  chan struct{} // binary semaphore that guards now
	now   *opened[T]
}

type opened[T any] struct {
	core *app.Core
	held map[string]string // values of the secrets, by ARN
	read time.Time         // when the secrets were read
	with T
}

func newOpener[T any](s *Sandbox, build func(*app.Core) (T, error)) *opener[T] {
	return &opener[T]{Sandbox: s, build: build, turn: make(chan struct{}, 1)}
}

// do runs fn with the open database. If the database refuses credentials that come from a secret, the
// secret may have been rotated: do then reads it again and runs fn once more.
func (o *opener[T]) do(ctx context.Context, fn func(*opened[T]) (any, error)) (any, error) {
	now, err := o.current(ctx, nil)
	if err != nil {
		return nil, err
	}
	answer, err := fn(now)
	if !app.CredentialsRefused(err) || o.cfg.DatabaseSecretARN == "" {
		return answer, err
	}
	fresh, ferr := o.current(ctx, now)
	if ferr != nil {
		return nil, errors.Join(err, ferr)
	}
	if fresh == now {
		return answer, err
	}
	o.log.WarnContext(ctx, "the database's credentials were rotated")
	return fn(fresh)
}

// current returns the open database and handler if they are not stale and their secrets are not old.
// Otherwise it reads the secrets, and opens the database again if they have changed.
func (o *opener[T]) current(ctx context.Context, stale *opened[T]) (*opened[T], error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the database to be opened: %w", ctx.Err())
	}
	old := o.old()
	if o.now != stale && !old {
		return o.now, nil
	}
	if o.bad != nil {
		return nil, o.bad
	}
	held, err := o.secrets(ctx)
	if err != nil && old && ctx.Err() == nil {
		o.log.WarnContext(ctx, "secrets can't be read again: those of before are used", "error", err)
		held, err = o.now.held, nil
	}
	if err != nil {
		return nil, err
	}
	if o.now != nil && maps.Equal(held, o.now.held) {
		o.now.read = o.clock()
		return o.now, nil
	}
	cfg, err := o.resolved(held)
	if err != nil && old {
		o.log.WarnContext(ctx, "a secret can't be used as it was changed: those of before are used", "error", err)
		o.now.read = o.clock()
		return o.now, nil
	}
	if err != nil {
		return nil, err
	}
	core, err := o.open(cfg, o.log, func(context.Context) (aws.Config, error) { return app.FunctionAWS() })
	if err != nil {
		return nil, err
	}
	core.Meters, core.Spans, core.Clock = o.meters, o.spans, o.clock
	o.spans.SetHeaders(cfg.HeadersOfSpans()) // they may be in a secret
	with, err := o.build(core)
	if err != nil {
		return nil, errors.Join(err, core.Close())
	}
	before := o.now
	o.now = &opened[T]{core: core, held: held, read: o.clock(), with: with}
	if before == nil {
		return o.now, nil
	}
	return o.now, before.core.Close()
}

// old reports whether the secrets were read more than secretLife ago.
func (o *opener[T]) old() bool {
	if o.now == nil || len(o.now.held) == 0 {
		return false
	}
	age := o.clock().Sub(o.now.read)
	return age < 0 || age >= secretLife
}
