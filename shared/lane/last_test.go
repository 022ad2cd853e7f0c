package lane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// TestLastWritesShareOneLimit, which begins with the first of them, however the work has
// ended; they have no deadline, by which a hold would be renewed for less.
func TestLastWritesShareOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancel(t.Context())
		work, end := lane.WithLastWrites(ctx)
		defer end()
		cut()
		time.Sleep(time.Minute)
		first, cancel := lane.LastWrites(work)
		time.Sleep(3 * time.Second)
		cancel()
		inner, cancelInner := lane.WithLastWrites(first)
		defer cancelInner()
		second, cancel := lane.LastWrites(inner)
		defer cancel()
		if _, limited := second.Deadline(); limited || second.Err() != nil {
			t.Fatalf("the second is %v", second.Err())
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		synctest.Wait()
		if second.Err() != nil {
			t.Error("they end early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if second.Err() == nil {
			t.Error("the second has a limit of its own")
		}
	})
}

// TestLastWritesEnd without a limit that they share.
func TestLastWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last, cancel := lane.LastWrites(t.Context())
		defer cancel()
		time.Sleep(5*time.Second - time.Nanosecond)
		synctest.Wait()
		if last.Err() != nil {
			t.Error("they end early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if last.Err() == nil {
			t.Error("they have no end")
		}
	})
}
