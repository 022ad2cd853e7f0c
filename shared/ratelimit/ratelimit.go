// Package ratelimit limits how often a caller may send requests. It has token buckets in the
// database for all processes together, a cache that takes several tokens with one statement, and a
// count of bad credentials by address.
package ratelimit

import (
	"context"
	"embed"
	"fmt"
	"math"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A Limit is the rate at which tokens return to a bucket, and the size of the bucket.
type Limit struct {
	PerSecond float64
	Burst     int
}

// API is the limit of a principal on the HTTP API, unless its workspace sets another.
var API = Limit{PerSecond: 100, Burst: 1000}

// lasting returns how long n tokens take to return.
func (l Limit) lasting(n int) time.Duration {
	return time.Duration(math.Ceil(float64(n) / l.PerSecond * float64(time.Second)))
}

//go:embed ratelimit.*.sql
var limitFiles embed.FS

// Store is the token buckets in the database, shared by all processes. It is safe for concurrent
// use.
type Store struct {
	db *db.DB
	q  struct{ Take, Purge db.Query }
}

// New returns a store.
func New(d *db.DB) (*Store, error) {
	l := &Store{db: d}
	return l, db.Load(limitFiles, &l.q)
}

// Take takes n tokens, from 1 to the limit's burst, from the bucket of a key (1–255 characters).
// When there are fewer, it takes none and returns after how long there will be enough. A bucket
// without a row is full. In any period of time all callers together get at most the burst plus the
// tokens that returned meanwhile. Take runs one statement, on the database's clock.
func (l *Store) Take(ctx context.Context, ws db.Workspace, key string, n int, limit Limit) (ok bool, retryAfter time.Duration, err error) {
	var b db.Batch
	return l.take(ctx, ws, key, n, limit, &b)
}

// take is Take in a batch that may contain other statements.
func (l *Store) take(ctx context.Context, ws db.Workspace, key string, n int, limit Limit, b *db.Batch) (ok bool,
	retryAfter time.Duration, err error) {
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

// purgeBatch is the largest number of buckets that one purge deletes.
const purgeBatch = 1000

// Purge adds to a batch the statement that deletes buckets which have been full for an hour, at
// most a thousand.
func (l *Store) Purge(b *db.Batch) { b.Exec(l.q.Purge, purgeBatch) }
