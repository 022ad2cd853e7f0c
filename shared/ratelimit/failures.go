package ratelimit

import (
	"net/netip"
	"sync"
	"time"
)

// BadCredentials is how often an address may come with credentials that are not good.
var BadCredentials = Limit{PerSecond: 5, Burst: 300}

// maxAddresses is how many addresses are remembered: some hundred kilobytes.
const maxAddresses = 10_000

// Failures counts bad credentials by the address that they come from, in this process. An
// IPv6 network of 64 bits counts as one address. A nil one counts nothing. It is safe for
// concurrent use.
type Failures struct {
	limit Limit
	clock func() time.Time
	mu    sync.Mutex
	of    map[netip.Prefix]time.Time // when the bucket will be full again
}

// NewFailures makes one. The clock is this process's.
func NewFailures(limit Limit, clock func() time.Time) *Failures {
	return &Failures{limit: limit, clock: clock, of: map[netip.Prefix]time.Time{}}
}

// Count counts one failure from an address, such as http.Request's RemoteAddr, and reports
// whether there were more than may be, and after how long there may be another.
func (f *Failures) Count(remote string) (tooMany bool, retryAfter time.Duration) {
	if f == nil {
		return false, 0
	}
	from, now := networkOf(remote), f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	full, known := f.of[from]
	if !known {
		f.makeRoom(now)
	}
	if full.Before(now) {
		full = now
	}
	full = full.Add(f.limit.lasting(1))
	if over := full.Sub(now) - f.limit.lasting(f.limit.Burst); over > 0 {
		return true, over
	}
	f.of[from] = full
	return false, 0
}

// makeRoom forgets an address or more where as many are known as may be: those whose bucket
// is full again, of a few that it looks at, else whichever.
func (f *Failures) makeRoom(now time.Time) {
	if len(f.of) < maxAddresses {
		return
	}
	looked, last := 0, netip.Prefix{}
	for from, full := range f.of {
		if last = from; full.Before(now) {
			delete(f.of, from)
		}
		if looked++; looked == 100 {
			break
		}
	}
	if len(f.of) >= maxAddresses {
		delete(f.of, last)
	}
}

// networkOf is who an address stands for; what is none stands for all that are none.
func networkOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // it has as many
	return network
}
