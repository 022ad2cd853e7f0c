package ratelimit

import (
	"net/netip"
	"sync"
	"time"
)

// BadCredentials limits how often an address may send bad credentials.
var BadCredentials = Limit{PerSecond: 5, Burst: 300}

// maxAddresses is how many addresses are remembered; they need some hundred kilobytes.
const maxAddresses = 10_000

// Failures counts bad credentials by address, in this process. An IPv6 network of 64 bits counts as
// one address. A nil *Failures counts nothing. It is safe for concurrent use.
type Failures struct {
	limit Limit
	clock func() time.Time
	mu    sync.Mutex
	of    map[netip.Prefix]time.Time // when the bucket will be full again
}

// NewFailures returns a counter. clock is this process's clock.
func NewFailures(limit Limit, clock func() time.Time) *Failures {
	return &Failures{limit: limit, clock: clock, of: map[netip.Prefix]time.Time{}}
}

// Count counts one failure from an address, such as http.Request's RemoteAddr. It reports whether
// there were too many, and after how long another one is allowed.
func (f *Failures) Count(remote string) (tooMany bool, retryAfter time.Duration) {
	if f == nil {
		return false, 0
	}
	from, now := NetworkOf(remote), f.clock()
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

// makeRoom forgets at least one address when maxAddresses are known. It looks at a hundred
// addresses and forgets those whose bucket is full again. If there are none, it forgets any
// address.
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

// NetworkOf returns the network of an address, such as http.Request's RemoteAddr: of IPv4 the address,
// of IPv6 its first 64 bits. All invalid addresses share the zero prefix.
func NetworkOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // never fails: the address has that many bits
	return network
}
