// Package outside simulates the systems outside of the product for tests: a model that follows
// instructions, and a receiver that counts its requests.
//
// Under /model the model speaks the protocol of OpenAI, streamed if the request asks for that. It
// answers a person's message "note key", "pay key" or "jot key" with a call of that skill. For a step of a
// plan it makes the step's call, and then records that the step and the objective are done. For a task
// with the input {key, notes} it makes that many notes, one in each step. Every other path belongs to the receiver, which counts requests by the key or body in their JSON.
package outside

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A World is a model and a receiver at one address.
type World struct {
	*httptest.Server

	hold   atomic.Int64 // of the receiver, in nanoseconds
	asleep atomic.Int64
	sleep  time.Duration // of the model
	woken  chan struct{} // closed when another sleep is set

	mu   sync.Mutex
	came map[string]map[string]int // requests, by subject and by idempotency key
}

// Start starts a world. The caller closes it.
func Start() *World {
	w := &World{came: map[string]map[string]int{}, woken: make(chan struct{})}
	w.Server = httptest.NewServer(w)
	return w
}

// Sleep has the model answer after so long. Those that wait for it are answered now.
func (w *World) Sleep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.woken)
	w.sleep, w.woken = d, make(chan struct{})
}

// Asleep is how many requests to the model wait for its answer.
func (w *World) Asleep() int { return int(w.asleep.Load()) }

// Hold has the receiver answer so long after what came was counted.
func (w *World) Hold(d time.Duration) { w.hold.Store(int64(d)) }

// pause waits for so long, until it is woken, or until the caller has left.
func pause(r *http.Request, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-r.Context().Done():
	}
}

// Came returns the number of requests about what.
func (w *World) Came(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, times := range w.came[what] {
		n += times
	}
	return n
}

// Effects returns the number of effects. Requests under one idempotency key have one effect.
func (w *World) Effects(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.came[what])
}

// Doubled returns the subjects that came under several idempotency keys, and those keys. A receiver
// that acts once per key has acted on them more than once.
func (w *World) Doubled() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string][]string{}
	for text, keys := range w.came {
		if len(keys) > 1 {
			all[text] = slices.Sorted(maps.Keys(keys))
		}
	}
	return all
}

// ServeHTTP implements [http.Handler].
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/model") {
		w.mu.Lock()
		d, woken := w.sleep, w.woken
		w.mu.Unlock()
		w.asleep.Add(1)
		pause(r, d, woken)
		w.asleep.Add(-1)
		answer(out, raw)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	var about struct{ Key, Body string }
	_ = json.Unmarshal(raw, &about)
	w.count(about.Key+about.Body, cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("Webhook-Id")))
	pause(r, time.Duration(w.hold.Load()), nil)
	_, _ = io.WriteString(out, `{"ok":true}`)
}

func (w *World) count(what, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.came[what] == nil {
		w.came[what] = map[string]int{}
	}
	w.came[what][key]++
}
