//go:build unix

package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
)

// received is the answer to a webhook. The status of a problem is a number.
type received struct {
	ID     string
	Status any
}

// tries is how long a webhook that is told to come again is sent.
const tries = 5 * time.Minute

// deliver sends a webhook, again where it is told to, until the last answer counts.
func (c *chaos) deliver(event, key string) (code int, r received) {
	within(tries, func() bool {
		var ok bool
		if code, ok = c.hook(event, key, &r); !ok {
			code = 0
		}
		return code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable
	})
	return code, r
}

// TestWebhooksAtTheRunner proves R9, R10 and R11 at the built runner on SQLite.
func TestWebhooksAtTheRunner(t *testing.T) {
	c := newChaos(t, built(t), "sqlite", promise.Seed(t))
	c.duplicates(t, promise.Figure(60, 5000))
	c.cuts(t, promise.Figure(4, 100))
	c.prompt(t, promise.Figure(20, 1000))
}

// duplicates sends webhooks, three in ten of them again, at once and in any order.
func (c *chaos) duplicates(t *testing.T, all int) {
	t.Helper()
	proof := promise.Of(t, "R9", fmt.Sprintf("%d webhooks, 30 %% of them duplicates, at once and shuffled, at the runner on SQLite", all),
		"effects = unique ids; duplicates answered 2xx")
	unique := all * 7 / 10
	key := func(n int) string { return fmt.Sprintf("r9-%d", n) }
	order := c.random.Perm(all)
	var next, fresh, again, wrong atomic.Int64
	var sending sync.WaitGroup
	for range 6 {
		sending.Go(func() {
			for i := next.Add(1) - 1; i < int64(all); i = next.Add(1) - 1 {
				switch code, r := c.deliver("note", key(order[i]%unique)); {
				case code == http.StatusAccepted && r.Status == "received":
					fresh.Add(1)
				case code == http.StatusOK && r.Status == "duplicate":
					again.Add(1)
				default:
					wrong.Add(1)
				}
			}
		})
	}
	sending.Wait()
	effects := func() (n int) {
		for i := range unique {
			n += min(1, c.world.Effects(key(i)))
		}
		return n
	}
	within(10*time.Minute, func() bool { return effects() >= unique })
	proof.Tell("%d effects of %d unique ids; %d received, %d duplicates, %d otherwise",
		effects(), unique, fresh.Load(), again.Load(), wrong.Load())
	twice, duplicates := c.world.Doubled(), int64(all-unique)
	if len(twice) > 0 || effects() != unique || fresh.Load() != int64(unique) || again.Load() != duplicates {
		t.Errorf("doubled: %v\n%s", twice, c.runner)
	}
}

// cuts kills the runner between receipt and answer.
func (c *chaos) cuts(t *testing.T, all int) {
	t.Helper()
	tried := fmt.Sprintf("%d SIGKILLs between receipt and answer, at the runner on SQLite", all)
	proof := promise.Of(t, "R10", tried, "2xx: a row; no row: never 2xx; sent again: stored once")
	answered, stored, neither := 0, 0, 0
	for n := range all {
		key := fmt.Sprintf("r10-%d", n)
		type answer struct {
			code int
			received
		}
		got := make(chan answer, 1)
		go func() {
			var r received
			code, ok := c.hook("none", key, &r)
			if !ok {
				code = 0
			}
			got <- answer{code, r}
		}()
		instant := time.NewTimer(time.Duration(c.random.Int64N(int64(6 * time.Millisecond))))
		<-instant.C
		kill(t, c.cmd, syscall.SIGKILL)
		_ = c.cmd.Wait() // it was killed
		first := <-got
		c.start(t)
		code, again := c.deliver("none", key)
		row := code == http.StatusOK && again.Status == "duplicate"
		switch {
		case code != http.StatusOK && code != http.StatusAccepted:
			t.Fatalf("%s, sent again: %d %+v\n%s", key, code, again, c.runner)
		case first.code >= 200 && first.code < 300 && (!row || again.ID != first.ID):
			t.Errorf("%s was answered with %d, and sent again with %d %+v", key, first.code, code, again)
		case first.code == http.StatusAccepted:
			answered++
		case row:
			stored++
		default:
			neither++
		}
		if code, _ := c.deliver("none", key); code != http.StatusOK {
			t.Errorf("%s, for the third time: %d", key, code)
		}
	}
	proof.Tell("%d answered and stored, %d stored and not answered, %d neither; each stored once when it was sent again",
		answered, stored, neither)
}

// prompt sends webhooks while the model sleeps.
func (c *chaos) prompt(t *testing.T, all int) {
	t.Helper()
	proof := promise.Of(t, "R11", fmt.Sprintf("%d webhooks, the model asleep all the while, at the runner on SQLite", all), "p99 < 1 s")
	c.world.Sleep(time.Hour) // longer than the run
	defer c.world.Sleep(0)
	for n := range 4 {
		c.deliver("say", fmt.Sprintf("r11-%d", n))
	}
	asleep := func(otherwise string) { // a silent model is asked anew now and then
		t.Helper()
		if !within(time.Minute, func() bool { return c.world.Asleep() > 0 }) {
			t.Fatalf("%s\n%s", otherwise, c.runner)
		}
	}
	asleep("the model is not asked")
	took := make([]time.Duration, 0, all)
	for n := range all {
		begun := time.Now()
		code, _ := c.hook("none", fmt.Sprintf("r11-none-%d", n), nil)
		if code == http.StatusAccepted {
			took = append(took, time.Since(begun))
		}
	}
	asleep("the model has woken up")
	slices.Sort(took)
	limit := time.Second
	if !promise.Full() { // on a machine that is busy with other tests
		limit = 15 * time.Second
	}
	if len(took) < all/2 || took[len(took)*99/100] >= limit {
		t.Errorf("%d of %d, %v", len(took), all, took[max(0, len(took)-3):])
		return
	}
	proof.Tell("p99 %s of %d", took[len(took)*99/100].Round(time.Microsecond), len(took))
}
