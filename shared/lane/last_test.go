package lane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// TestLastWritesShareOneLimit checks that the limit begins with the first last write, however the
// work has ended. They have no deadline, which would shorten a renewed hold.
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

// TestLastWritesEnd checks that last writes without a shared limit end 5 s after their work, and
// not before.
func TestLastWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancel(t.Context())
		last, cancel := lane.LastWrites(ctx)
		defer cancel()
		time.Sleep(time.Minute)
		cut()
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

// TestLastWritesOfAPart checks that they end with those of the enclosing work. Their limit does not
// begin while that work runs.
func TestLastWritesOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancel(t.Context())
		whole, end := lane.WithLastWrites(ctx)
		defer end()
		lasts := func(what string, under context.Context, want time.Duration) {
			t.Helper()
			last, cancel := lane.LastWrites(under)
			defer cancel()
			begun := time.Now()
			if <-last.Done(); time.Since(begun) != want {
				t.Errorf("%s lasts %s, want %s", what, time.Since(begun), want)
			}
		}
		part, done := context.WithTimeout(whole, time.Second)
		defer done()
		part, end = lane.WithLastWrites(part)
		defer end()
		lasts("what a part writes that has come to its own limit", part, 6*time.Second)
		lasts("what it writes afterwards", part, 0)
		other, end := lane.WithLastWrites(whole)
		defer end()
		last, cancel := lane.LastWrites(whole)
		defer cancel()
		if last.Err() != nil {
			t.Error("the whole has no last writes, though it works")
		}
		cut()
		time.Sleep(2 * time.Second)
		lasts("what another part writes while the whole ends", other, 3*time.Second)
		lasts("what the whole writes afterwards", whole, 0)
	})
}

// TestLastWritesOfWorkThatOutlastsItsCaller checks that their limit begins when the work is over.
func TestLastWritesOfWorkThatOutlastsItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, leave := context.WithCancel(t.Context())
		work, over := context.WithCancel(context.WithoutCancel(caller))
		asked, end := lane.WithLastWritesOf(caller, work)
		defer end()
		turn, end := lane.WithLastWritesOf(context.WithoutCancel(asked), work)
		defer end()
		leave()
		last, cancel := lane.LastWrites(turn)
		defer cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		if last.Err() != nil {
			t.Fatal("they end when the caller leaves")
		}
		over()
		time.Sleep(4 * time.Second)
		answer, cancel := lane.LastWrites(asked)
		defer cancel()
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if last.Err() != nil || answer.Err() != nil {
			t.Error("they end early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if last.Err() == nil || answer.Err() == nil {
			t.Error("the work and its answer do not share a limit")
		}
	})
}
