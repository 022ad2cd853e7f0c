package ratelimit

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

const (
	// leaseFor is how long tokens are kept here unspent: hoarded longer, those of
	// many processes would come on top of a burst.
	leaseFor = 10 * time.Second
	// storeTime is how long the store may take to answer.
	storeTime = 500 * time.Millisecond
	// outage is how long the store is left alone after it failed.
	outage = time.Second
	// maxLeases is how many keys are remembered.
	maxLeases = 10_000
)

// Cache spends tokens that it takes from a [Store] several at a time, so that
// most requests of a busy caller cost no statement. Where a caller has used up what
// was taken for it, twice as much is taken next, up to a tenth of the burst and
// what comes back within a second. A store that fails lets everybody pass: limits
// are there to keep the service up. It is safe for concurrent use.
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

// lease is what is known here of one bucket.
type lease struct {
	mu      sync.Mutex
	limit   Limit // as it was read last; zero: never
	left    int   // tokens, to be spent by until
	chunk   int   // to take next
	until   time.Time
	refused time.Time // there are none before
	open    time.Time // everybody passes before: the store failed
}

// NewCache makes one. The clock is this process's.
func NewCache(store *Store, clock func() time.Time, log *slog.Logger) *Cache {
	return &Cache{store: store, clock: clock, log: log, leases: map[leaseKey]*lease{}}
}

// Rate adds the reading of a limit to a batch, and answers how to have it once the
// batch has been sent.
type Rate func(*db.Batch) func() Limit

// Take takes n tokens, 1 to the limit's burst, or none and tells after how long to
// ask again. The limit is read whenever the store is asked, and counts from then on;
// before, it is that of the API.
func (l *Cache) Take(ctx context.Context, ws db.Workspace, key string, n int, rate Rate) (ok bool, retryAfter time.Duration) {
	k := l.lease(leaseKey{ws, key})
	k.mu.Lock()
	defer k.mu.Unlock()
	now := l.clock()
	switch {
	case now.Before(k.open):
		return true, 0
	case now.Before(k.refused):
		return false, k.refused.Sub(now)
	case !now.Before(k.until):
		k.left, k.chunk = 0, k.limit.Burst/100
	}
	if k.left >= n {
		k.left -= n
		return true, 0
	}
	taken := max(n, min(k.chunk, k.limit.Burst/10, int(k.limit.PerSecond)))
	ok, wait, err := l.ask(ctx, ws, key, taken, k, rate)
	if err == nil && !ok && taken > n { // not as many, but perhaps these
		taken = n
		ok, wait, err = l.ask(ctx, ws, key, taken, k, rate)
	}
	now = l.clock()
	switch {
	case ctx.Err() != nil: // the caller has left
		return true, 0
	case err != nil:
		l.log.WarnContext(ctx, "rate limits can't be asked: requests pass", "error", err)
		k.open = now.Add(outage)
		return true, 0
	case !ok:
		k.refused = now.Add(wait)
		return false, wait
	}
	k.left += taken - n
	k.chunk = max(2*taken, k.limit.Burst/100)
	k.until = now.Add(leaseFor)
	return true, 0
}

// ask takes tokens from the store, and reads their limit on the way.
func (l *Cache) ask(ctx context.Context, ws db.Workspace, key string, n int, k *lease, rate Rate) (bool, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	var b db.Batch
	read := rate(&b)
	ok, wait, err := l.store.take(ctx, ws, key, n, cmp.Or(k.limit, API), &b)
	if err == nil {
		k.limit = read()
	}
	return ok, wait, err
}

// lease finds a bucket, or begins one. Those that nobody has used of late make room;
// where that does not help all do, and lose a few tokens.
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
	return !now.Before(k.until) && !now.Before(k.refused) && !now.Before(k.open)
}
