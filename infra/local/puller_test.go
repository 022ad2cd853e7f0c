//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// puller is an agent elsewhere. It pulls tasks over the API of a runner that may die at any instant, with
// a token of its own. A request whose answer is lost is repeated under the same Idempotency-Key.
type puller struct {
	c     *chaos
	id    string
	token string

	mu   sync.Mutex
	done map[string]int // answers to completions, by task
}

// newPuller registers an agent. It works until the test ends.
func newPuller(t *testing.T, c *chaos) *puller {
	t.Helper()
	p := &puller{c: c, id: uuid.NewString(), done: map[string]int{}}
	var made struct{ Token string }
	c.must(t, "PUT", "/agents/"+p.id, `{"name":"puller","capabilities":["pulling"],"maxConcurrentTasks":5,"heartbeatIntervalSeconds":1,"staleThresholdSeconds":5}`, &made)
	p.token = made.Token
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			p.work()
			pause := time.NewTimer(50 * time.Millisecond)
			<-pause.C
		}
	})
	t.Cleanup(working.Wait)
	t.Cleanup(end)
	return p
}

func (p *puller) ask(method, path, body, key string, into any) (status int, ok bool) {
	headers := map[string]string{"Authorization": "Bearer " + p.token}
	if key != "" {
		headers["Idempotency-Key"] = key
	}
	return p.c.send(method, "/api/v1"+path, body, into, headers)
}

// work sends a heartbeat, and does the tasks that the agent has and one more.
func (p *puller) work() {
	p.ask("POST", "/agents/"+p.id+"/heartbeat", `{"status":"WORKING"}`, "", nil)
	type claimed struct {
		ID      string
		Attempt int
	}
	var had struct{ Items []claimed }
	if status, ok := p.ask("GET", "/agents/"+p.id+"/tasks?status=RUNNING", "", "", &had); ok && status == http.StatusOK {
		for _, t := range had.Items { // the answers to their claims, or to their completions, were lost
			p.complete(t.ID, t.Attempt)
		}
	}
	var t claimed
	if status, ok := p.ask("POST", "/agents/"+p.id+"/claim", `{}`, "", &t); ok && status == http.StatusOK {
		p.complete(t.ID, t.Attempt)
	}
}

func (p *puller) complete(task string, attempt int) {
	status, ok := p.ask("POST", "/agent-tasks/"+task+"/complete", fmt.Sprintf(`{"attempt":%d,"summary":"done"}`, attempt),
		fmt.Sprintf("complete-%s-%d", task, attempt), nil)
	if ok && status == http.StatusOK {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done[task]++
	}
}
