// Package ratelimit bounds how often a caller may ask: buckets of tokens in the
// database for all processes together, a cache that spends several tokens for one
// statement, and a count of bad credentials by address.
package ratelimit

import (
	"context"
	"embed"
	"fmt"
	"math"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A Limit is how fast tokens come back to a bucket, and how many it holds.
type Limit struct {
	PerSecond float64
	Burst     int
}

// API is what a principal may ask of the HTTP API, unless its workspace says otherwise.
var API = Limit{PerSecond: 100, Burst: 1000}

// lasting is how long n tokens take to come back.
func (l Limit) lasting(n int) time.Duration {
	return time.Duration(math.Ceil(float64(n) / l.PerSecond * float64(time.Second)))
}

//go:embed ratelimit.*.sql
var limitFiles embed.FS

// Store keeps buckets of tokens in the database, for all processes together. It
// is safe for concurrent use.
type Store struct {
	db *db.DB
	q  struct{ Take, Purge db.Query }
}

// New makes a limiter.
func New(d *db.DB) (*Store, error) {
	l := &Store{db: d}
	if err := db.Load(limitFiles, &l.q); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return l, nil
}

// Take takes n tokens, 1 to the limit's burst, from the bucket of a key (1–255
// characters), or none and tells after how long they will be there. A bucket that
// is not known is full. Whoever asks, at whatever time t, together they get no more
// than the burst and what has come back by then. It is one statement, by the
// database's time.
func (l *Store) Take(ctx context.Context, ws db.Workspace, key string, n int, limit Limit) (ok bool, retryAfter time.Duration, err error) {
	var b db.Batch
	return l.take(ctx, ws, key, n, limit, &b)
}

// take is Take in a batch that may do something else.
func (l *Store) take(ctx context.Context, ws db.Workspace, key string, n int, limit Limit, b *db.Batch) (ok bool, retryAfter time.Duration, err error) {
	if !(limit.PerSecond > 0) || n < 1 || n > limit.Burst {
		return false, 0, fmt.Errorf("take %d tokens of a bucket of %d: there are never as many", n, limit.Burst)
	}
	cost, others := limit.lasting(n), limit.lasting(limit.Burst-n)
	var wait int64
	b.One([]any{&ok, &wait}, l.q.Take, key, cost.Microseconds(), others.Microseconds())
	if err := l.db.Do(ctx, ws, b); err != nil {
		return false, 0, fmt.Errorf("take tokens: %w", err)
	}
	if !ok {
		retryAfter = max(time.Millisecond, time.Duration(wait)*time.Microsecond)
	}
	return ok, retryAfter, nil
}

// purgeBatch is how many buckets one purge deletes at most.
const purgeBatch = 1000

// Purge adds to a batch the statement that deletes buckets which have been full for
// an hour, a thousand at most.
func (l *Store) Purge(b *db.Batch) { b.Exec(l.q.Purge, purgeBatch) }
