package ratelimit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
)

func TestFailuresAreCountedByAddress(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f := ratelimit.NewFailures(ratelimit.BadCredentials, func() time.Time { return now })
	count := func(n int, from string) (refused int, wait time.Duration) {
		for range n {
			tooMany, after := f.Count(from)
			if tooMany {
				refused, wait = refused+1, after
			}
		}
		return refused, wait
	}
	if refused, wait := count(310, "198.51.100.7:4711"); refused != 10 || wait != 200*time.Millisecond {
		t.Errorf("%d of 310 were refused, for %s", refused, wait)
	}
	if refused, _ := count(1, "198.51.100.7:4712"); refused != 1 {
		t.Error("another port is another address")
	}
	if refused, _ := count(1, "[::ffff:198.51.100.7]:1"); refused != 1 {
		t.Error("an address has two forms")
	}
	if refused, _ := count(300, "198.51.100.8:1"); refused != 0 {
		t.Error("another address pays for the first")
	}
	if refused, _ := count(301, "[2001:db8::1]:1"); refused != 1 {
		t.Errorf("%d refused of IPv6", refused)
	}
	if refused, _ := count(1, "[2001:db8::2]:1"); refused != 1 {
		t.Error("each address of a network counts for itself")
	}
	if refused, _ := count(300, "[2001:db8:0:1::1]:1"); refused != 0 {
		t.Error("another network pays for the first")
	}
	now = now.Add(time.Second)
	if refused, _ := count(6, "198.51.100.7:4711"); refused != 1 {
		t.Errorf("%d of 6 were refused after a second", refused)
	}
	var none *ratelimit.Failures
	if tooMany, _ := none.Count("x"); tooMany {
		t.Error("none refuses")
	}
}

// TestFailuresAreBounded: the number of remembered addresses is bounded. No address gets more than
// the burst, at once or over time.
func TestFailuresAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f := ratelimit.NewFailures(ratelimit.BadCredentials, func() time.Time { return now })
	for i := range 30_000 {
		f.Count(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if n := f.Known(); n > 10_000 {
		t.Errorf("%d addresses are remembered", n)
	}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if tooMany, _ := f.Count("198.51.100.9:1"); !tooMany {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 300 {
		t.Errorf("%d passed", passed.Load())
	}
}
