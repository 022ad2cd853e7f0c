// Package outside is the world outside of the product, for tests: a model that does what
// it is told, and a receiver that keeps what comes.
//
// Under /model the model speaks the protocol of OpenAI, streamed where that is asked for.
// A person's "note key" and "pay key" are calls of these skills; of a step of a plan it
// makes the call, and writes down that the step, and all, is done. Every other path is a
// receiver's: what has a key or a body in JSON is counted by it.
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
)

// A World is a model and a receiver on one address.
type World struct {
	*httptest.Server

	mu   sync.Mutex
	came map[string]map[string]int // requests, by what they are about and the key of their effect
}

// Start begins a world, which is to be closed.
func Start() *World {
	w := &World{came: map[string]map[string]int{}}
	w.Server = httptest.NewServer(w)
	return w
}

// Came is how many requests have come about what.
func (w *World) Came(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, times := range w.came[what] {
		n += times
	}
	return n
}

// Effects is how many effects there were: requests under one key have one.
func (w *World) Effects(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.came[what])
}

// Doubled are the texts that came under several idempotency keys, and these: a receiver
// that acts once on each key has acted on them more than once.
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
		answer(out, raw)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	var about struct{ Key, Body string }
	_ = json.Unmarshal(raw, &about)
	w.count(about.Key+about.Body, cmp.Or(r.Header.Get("Idempotency-Key"), r.Header.Get("Webhook-Id")))
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
