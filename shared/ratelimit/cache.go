package ratelimit

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	// leaseFor is how long unspent tokens are kept here. If many processes kept tokens longer,
	// these would add up to more than a burst.
	leaseFor = 10 * time.Second
	// storeTime is the longest wait for an answer of the store.
	storeTime = 500 * time.Millisecond
	// outage is how long the store is not asked after it failed.
	outage = time.Second
	// maxLeases is how many keys are remembered.
	maxLeases = 10_000
)

// Cache takes several tokens at once from a [Store] and spends them, so that most requests of a
// busy caller cost no statement. When a caller has used its tokens up, the next request takes twice
// as many, but at most a tenth of the burst and at most the tokens of one second. When the store
// fails, the limit applies to this process alone, because limits exist to keep the service available;
// what passes then is taken from the bucket as soon as the store answers. It is safe for concurrent use.
type Cache struct {
	store  *Store
	clock  func() time.Time
	log    *slog.Logger
	mu     sync.Mutex
	leases map[leaseKey]*lease
}

type leaseKey struct {
	ws  db.Workspace
	key string
}

// lease is what this process knows of one bucket.
type lease struct {
	mu      sync.Mutex
	limit   Limit // as read last; zero: not read yet
	left    int   // tokens that may be spent before until
	chunk   int   // how many to take next
	until   time.Time
	refused time.Time // no tokens are available before this time
	alone   time.Time // the store is not asked before this time, because it failed
	full    time.Time // when the tokens that this process spent would have returned
	owed    int       // tokens that were spent without the store
}

// spends spends n tokens of those that this process could spend if it were the only one. It returns after how
// long there will be as many, when there are not.
func (k *lease) spends(now time.Time, n int) (wait time.Duration) {
	k.spent(now, n)
	if wait = k.full.Sub(now) - k.limit.lasting(k.limit.Burst); wait > 0 {
		k.full = k.full.Add(-k.limit.lasting(n))
		return wait
	}
	k.owed = min(k.owed+n, k.limit.Burst)
	return 0
}

// spent notes that n tokens were spent.
func (k *lease) spent(now time.Time, n int) {
	if k.full.Before(now) {
		k.full = now
	}
	k.full = k.full.Add(k.limit.lasting(n))
}

// NewCache returns a cache. clock is this process's clock.
func NewCache(store *Store, clock func() time.Time, log *slog.Logger) *Cache {
	return &Cache{store: store, clock: clock, log: log, leases: map[leaseKey]*lease{}}
}

// Rate adds the reading of a limit to a batch. The function it returns gives the limit after the
// batch was sent.
type Rate func(*db.Batch) func() Limit

// Take takes n tokens, from 1 to the limit's burst, or none; then it returns after how long to try
// again. The limit is read whenever the store is asked, and applies from then on. Before that, the
// limit of the API applies.
func (l *Cache) Take(ctx context.Context, ws db.Workspace, key string, n int, rate Rate) (ok bool, retryAfter time.Duration) {
	return l.TakeFirst(ctx, ws, key, n, API, rate)
}

// TakeFirst is [Cache.Take] with another limit that applies before the limit has been read.
func (l *Cache) TakeFirst(ctx context.Context, ws db.Workspace, key string, n int, first Limit, rate Rate) (ok bool,
	retryAfter time.Duration) {
	k := l.lease(leaseKey{ws, key})
	k.mu.Lock()
	defer k.mu.Unlock()
	now := l.clock()
	switch {
	case now.Before(k.alone):
		wait := k.spends(now, n)
		return wait == 0, wait
	case now.Before(k.refused):
		return false, k.refused.Sub(now)
	case !now.Before(k.until):
		k.left, k.chunk = 0, k.limit.Burst/100
	}
	if k.limit == (Limit{}) {
		k.limit = first
	}
	if k.left >= n {
		k.left -= n
		k.spent(now, n)
		return true, 0
	}
	owed := min(k.owed, k.limit.Burst-n)
	least := n + owed
	taken := max(least, min(k.chunk, k.limit.Burst/10, int(k.limit.PerSecond)))
	ok, wait, err := l.ask(ctx, ws, key, taken, k, rate)
	if err == nil && !ok && taken > least { // not that many, but perhaps enough
		taken = least
		ok, wait, err = l.ask(ctx, ws, key, taken, k, rate)
	}
	now = l.clock()
	switch {
	case ctx.Err() != nil: // the caller has left
		return true, 0
	case err != nil:
		l.log.WarnContext(ctx, "rate limits can't be asked: this process limits alone", "error", err)
		k.alone = now.Add(outage)
		wait = k.spends(now, n)
		return wait == 0, wait
	case !ok:
		k.refused = now.Add(wait)
		return false, wait
	}
	k.spent(now, n)
	k.left += taken - least
	k.owed -= least - n
	k.chunk = max(2*taken, k.limit.Burst/100)
	k.until = now.Add(leaseFor)
	return true, 0
}

// Wait returns for how long a bucket is known to have no tokens; 0: it may have some. It takes none and
// asks nobody.
func (l *Cache) Wait(ws db.Workspace, key string) time.Duration {
	k := l.lease(leaseKey{ws, key})
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, k.refused.Sub(l.clock()))
}

// ask takes tokens from the store, and reads their limit in the same round trip.
func (l *Cache) ask(ctx context.Context, ws db.Workspace, key string, n int, k *lease, rate Rate) (bool, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	var b db.Batch
	read := rate(&b)
	ok, wait, err := l.store.take(ctx, ws, key, n, k.limit, &b)
	if err == nil {
		k.limit = read()
	}
	return ok, wait, err
}

// lease returns the bucket of a key, or adds one. When there are too many, it forgets idle buckets.
// If that does not help, it forgets all; then a few tokens are lost.
func (l *Cache) lease(of leaseKey) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, known := l.leases[of]; known {
		return k
	}
	if len(l.leases) >= maxLeases {
		now := l.clock()
		maps.DeleteFunc(l.leases, func(_ leaseKey, k *lease) bool { return k.idle(now) })
	}
	if len(l.leases) >= maxLeases {
		clear(l.leases)
	}
	k := new(lease)
	l.leases[of] = k
	return k
}

func (k *lease) idle(now time.Time) bool {
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return !now.Before(k.until) && !now.Before(k.refused) && !now.Before(k.alone) && k.owed == 0
}
