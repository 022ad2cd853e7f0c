// Package outside is the world that an agent of the rig's acts on: a model that does what
// it is told, and a receiver that counts what comes.
//
// The model answers OpenAI's protocol under /model. A person's "note KEY" and "pay KEY" are
// calls of these skills; of a step of a plan it makes the call, and writes down that the
// step and its objective are done. Every other path is the receiver's: it keeps a request
// by the text of its fields "key" and "body", and under which idempotency keys it came.
package outside

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// World is the model and the receiver. It is safe for concurrent use.
type World struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string]map[string]int // requests, by text and idempotency key
}

// Start starts the world; Close ends it.
func Start() *World {
	w := &World{came: map[string]map[string]int{}}
	w.Server = httptest.NewServer(w)
	return w
}

// Came reports how often a text has come, repetitions under one idempotency key included.
func (w *World) Came(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, times := range w.came[text] {
		n += times
	}
	return n
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

// ServeHTTP implements http.Handler.
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	out.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, "/model") {
		_ = json.NewEncoder(out).Encode(obey(raw))
		return
	}
	var came struct{ Key, Body string }
	_ = json.Unmarshal(raw, &came) // what is no JSON is kept under no text
	text, key := came.Key+came.Body, r.Header.Get("Idempotency-Key")+r.Header.Get("Webhook-Id")
	w.mu.Lock()
	if w.came[text] == nil {
		w.came[text] = map[string]int{}
	}
	w.came[text][key]++
	w.mu.Unlock()
	_, _ = io.WriteString(out, `{"ok":true}`)
}

// obey answers as a model does. A person's "note key" and "pay key" are calls of these
// skills; of a step it makes the call, and writes down that the step, and all, is done.
func obey(raw []byte) any {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.Unmarshal(raw, &asked)
	var system, said string
	made := 0
	for _, m := range asked.Messages {
		switch m.Role {
		case "system":
			system = m.Content
		case "user":
			said, made = m.Content, 0
		case "tool":
			made++
		}
	}
	name, arguments := "", ""
	if strings.Contains(system, "task: advance") {
		name, arguments = nextOf(said, made)
	} else if skill, key, _ := strings.Cut(said, " "); made == 0 && (skill == "note" || skill == "pay") {
		name, arguments = skill, `{"key":"`+key+`"}`
	}
	message, reason := map[string]any{"role": "assistant", "content": "Done."}, "stop"
	if name != "" {
		reason = "tool_calls"
		message = map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
			"id": fmt.Sprintf("call-%d-%d", len(said), made), "type": "function", "function": map[string]string{"name": name, "arguments": arguments},
		}}}
	}
	return map[string]any{
		"id": "x", "model": "x", "usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
		"choices": []any{map[string]any{"index": 0, "finish_reason": reason, "message": message}},
	}
}

// nextOf is the call that is next of a step, when so many were made.
func nextOf(brief string, made int) (name, arguments string) {
	var b struct {
		Objective struct{ ID string }
		Step      struct {
			Number int
			Skill  string
			Inputs json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(brief[max(0, strings.Index(brief, "{")):]), &b); err != nil {
		return "", ""
	}
	switch made {
	case 0:
		return b.Step.Skill, string(b.Step.Inputs)
	case 1:
		return "advance_plan", fmt.Sprintf(`{"objectiveId":%q,"step":%d,"result":"done"}`, b.Objective.ID, b.Step.Number)
	case 2:
		return "complete_objective", fmt.Sprintf(`{"objectiveId":%q,"summary":"done"}`, b.Objective.ID)
	}
	return "", ""
}
