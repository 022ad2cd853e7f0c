// Package backend says where a process keeps its state. STATE_BACKEND and DATABASE_URL choose the database
// with which the process was opened. REDIS_URL adds a Redis, which holds the live view. The rest of the code
// does not know which of them it uses. Only the functions with the API link this package, and with it the
// client of a Redis.
package backend

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/live/valkey"
)

// Backend is the live view in front of the database, if one is configured.
type Backend struct {
	// Check returns an error if the live view cannot be reached; nil: none is configured.
	Check func(context.Context) error

	redis *valkey.Client
}

// Of adds the configured Redis to a process, and has its cycles rebuild the live view there.
// It does not connect. It is called by app/web and by the local runner.
func Of(s *wire.Surfaces) (*Backend, error) {
	address := s.Core.Config.RedisURL
	if address == "" {
		return &Backend{}, nil
	}
	far, err := live.NewDatabase(s.DB, s.Tasks, s.Threads, s.Lanes)
	if err != nil {
		return nil, err
	}
	near, err := valkey.New(valkey.Options{URL: address, Log: s.Log, Failed: s.Meters.ValkeyUnreachable})
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	s.State = live.NewBoth(far, near)
	s.Live = &live.Rebuilder{From: far, Events: s.Events, To: near, Log: s.Log}
	s.Core.Leave = func() { _ = near.Close() } // it keeps nothing
	return &Backend{Check: near.Check, redis: near}, nil
}

// Close closes the connections to the Redis.
func (b *Backend) Close() error {
	if b.redis == nil {
		return nil
	}
	return b.redis.Close()
}

// Ping returns an error if the Redis of a configuration cannot be reached.
func Ping(ctx context.Context, cfg app.Config) (err error) {
	c, err := valkey.New(valkey.Options{URL: cfg.RedisURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	defer func() {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}()
	return c.Check(ctx)
}
