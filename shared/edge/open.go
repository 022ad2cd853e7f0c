package edge

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// An opener makes what a function serves with when an invocation first needs it,
// and keeps it for the next ones.
type opener[T any] struct {
	*Sandbox
	build func(*app.Core) (T, error)
	turn  chan struct{} // of one: who has put something in may change now
	now   *opened[T]
}

type opened[T any] struct {
	core *app.Core
	url  string
	with T
}

func newOpener[T any](s *Sandbox, build func(*app.Core) (T, error)) *opener[T] {
	return &opener[T]{Sandbox: s, build: build, turn: make(chan struct{}, 1)}
}

// do runs fn with what is open. Where the database refuses credentials that come
// from a secret, they may have been rotated: fn then runs once more with new ones.
func (o *opener[T]) do(ctx context.Context, fn func(*opened[T]) (any, error)) (any, error) {
	now, err := o.instead(ctx, nil)
	if err != nil {
		return nil, err
	}
	answer, err := fn(now)
	if !app.CredentialsRefused(err) || o.cfg.DatabaseSecretARN == "" {
		return answer, err
	}
	fresh, ferr := o.instead(ctx, now)
	if ferr != nil {
		return nil, errors.Join(err, ferr)
	}
	if fresh.url == now.url {
		return answer, err
	}
	o.log.WarnContext(ctx, "the database's credentials were rotated")
	return fn(fresh)
}

// instead answers what is open if it is another than stale, and else opens it,
// anew where the URL has changed.
func (o *opener[T]) instead(ctx context.Context, stale *opened[T]) (*opened[T], error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the database to be opened: %w", ctx.Err())
	}
	if o.now != stale {
		return o.now, nil
	}
	if o.bad != nil {
		return nil, o.bad
	}
	url, err := o.databaseURL(ctx)
	if err != nil {
		return nil, err
	}
	if stale != nil && url == stale.url {
		return stale, nil
	}
	core, err := o.open(url, o.cfg, o.log, func(context.Context) (aws.Config, error) { return awsConfig() })
	if err != nil {
		return nil, err
	}
	with, err := o.build(core)
	if err != nil {
		return nil, errors.Join(err, core.DB.Close())
	}
	o.now = &opened[T]{core: core, url: url, with: with}
	if stale == nil {
		return o.now, nil
	}
	return o.now, stale.core.DB.Close()
}
