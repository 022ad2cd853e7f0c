//go:build unix

package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// afterACut is the time limit within which everything continues after a connection was cut and no
// process died. If the process died, the limit is [moves].
const afterACut = time.Minute

// R34: the built runner is killed, drained, and cut off from its database, its model and its
// receiver at random instants, and started again. All accepted work continues by itself. The test
// counts accepted work by the responses that the callers received, and its effects by the requests
// that the receiver got.
func TestNothingStaysStuck(t *testing.T) {
	t.Parallel()
	binary := built(t)
	seed := promise.Seed(t)
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R34", "SIGKILL, SIGTERM and cut connections of the built runner on "+engine,
				fmt.Sprintf("0 stuck; all moves within %s, %s where the process died", afterACut, moves+15*time.Second))
			c := newChaos(t, binary, engine, seed)
			newPuller(t, c)
			for range promise.Figure(4, 150) {
				if c.round(t); t.Failed() {
					t.Fatalf("in round %d, %s\n%s", c.rounds, c.struck, c.runner)
				}
				proof.Tell("%d strikes, %d accepted, 0 stuck, the slowest %s after the restart, %s after a cut",
					c.rounds, len(c.accepted), c.slowest[true].Round(time.Millisecond), c.slowest[false].Round(time.Millisecond))
			}
			if len(c.accepted) < c.rounds {
				t.Errorf("only %d pieces of work were accepted in %d rounds", len(c.accepted), c.rounds)
			}
		})
	}
}

// chaos is a runner whose network the test controls, and the work that the runner has accepted.
type chaos struct {
	home
	binary  string
	random  *rand.Rand
	world   *outside.World
	proxies []*proxy.Proxy // to the model, the receiver and, on Postgres, the database

	cmd    *exec.Cmd
	runner *running

	rounds     int
	moved      int    // how many of accepted, from the first on, have finished
	automation string // of this round
	deck       []int  // indexes of strikes
	struck     string
	slowest    map[bool]time.Duration // time until everything continued; true: after the process died
	mu         sync.Mutex
	url, token string
	accepted   []piece
	threads    []string
}

// piece is work that the runner has accepted. The receiver gets its effect under the key. A piece
// with an execution may instead end without the effect and give a reason.
// A piece with a task ends when the task is completed; its effect is one at most.
type piece struct{ what, key, execution, task string }

func newChaos(t *testing.T, binary, engine string, seed uint64) *chaos {
	t.Helper()
	c := &chaos{binary: binary, random: rand.New(rand.NewPCG(seed, 34)), world: outside.Start(), slowest: map[bool]time.Duration{}}
	t.Cleanup(c.world.Close)
	through := func(rawURL string) string {
		p, err := proxy.Start(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		c.proxies = append(c.proxies, p)
		return p.URL
	}
	model, receiver := through(c.world.URL+"/model"), through(c.world.URL)
	at, err := url.Parse(receiver)
	if err != nil {
		t.Fatal(err)
	}
	c.home = newHome(t, "LLM_PROVIDER=openai", "LLM_MODEL=x", "OPENAI_API_KEY=x", "OPENAI_BASE_URL="+model, "DEMO=0", "HEARTBEAT_EVERY=1m", "COORDINATOR_EVERY=2s",
		"ALLOW_PRIVATE_HOSTS="+at.Host)
	if engine == "postgres" {
		c.environ = append(c.environ, "STATE_BACKEND=postgres", "DATABASE_URL="+through(dbtest.NewDatabase(t)))
	}
	c.start(t)
	t.Cleanup(func() {
		kill(t, c.cmd, syscall.SIGKILL)
		_ = c.cmd.Wait()
	})
	for name, more := range map[string]string{"note": "", "pay": `"requiresApproval":true,`, "jot": `"scope":"external",`} {
		c.must(t, "POST", "/skills", `{"name":"`+name+`","kind":"http","description":"Does it.",`+more+`
			"parameters":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]},
			"config":{"url":"`+receiver+`/`+name+`","idempotencyKeyHeader":"Idempotency-Key"}}`, nil)
	}
	c.must(t, "PUT", "/agents/"+uuid.NewString(), `{"name":"built in","spawner":"builtin","capabilities":["building"],"maxConcurrentTasks":3}`, nil)
	c.must(t, "POST", "/webhook-sources", fmt.Sprintf(`{"name":"gh","kind":"github","secret":%q,"rules":[
		{"event":"note","then":{"skill":"note","with":{"key":"{{body.key}}"}}},
		{"event":"say","then":{"message":{"thread":{"channel":"gh","address":"{{body.key}}"},"body":"note {{body.key}}"}}}]}`, signer), nil)
	c.must(t, "POST", "/secrets", `{"name":"channel.http","value":"a-text-that-signs-what-is-said"}`, nil)
	for i := range 3 {
		var thread struct{ ID string }
		c.must(t, "POST", "/threads", fmt.Sprintf(`{"channel":"http","address":"%s/said/%d"}`, receiver, i), &thread)
		c.threads = append(c.threads, thread.ID)
	}
	return c
}

func (c *chaos) start(t *testing.T) {
	t.Helper()
	c.cmd, c.runner = startIn(t, c.binary, c.home)
	url, token := c.runner.after("API        "), c.runner.after("export LANEKEEPER_TOKEN=")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.url, c.token = url, token
}

const signer = "a-text-that-signs-webhooks"

// hook sends a webhook. Its id is its key.
func (c *chaos) hook(event, key string, into any) (status int, ok bool) {
	body := fmt.Sprintf(`{"key":%q}`, key)
	mac := hmac.New(sha256.New, []byte(signer))
	mac.Write([]byte(body))
	return c.send("POST", "/webhooks/default/gh", body, into, map[string]string{
		"X-GitHub-Delivery": key, "X-GitHub-Event": event, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	})
}

// ask sends a request to the API, and again later when there were too many. ok is false if no response came.
func (c *chaos) ask(method, path, body string, into any) (status int, ok bool) {
	for range 60 {
		c.mu.Lock()
		token := c.token
		c.mu.Unlock()
		status, ok = c.send(method, "/api/v1"+path, body, into, map[string]string{"Authorization": "Bearer " + token})
		if status != http.StatusTooManyRequests {
			break
		}
		later := time.NewTimer(time.Second) // the least Retry-After
		<-later.C
	}
	return status, ok
}

// send sends a request. ok is false if no response came.
func (c *chaos) send(method, path, body string, into any, headers map[string]string) (status int, ok bool) {
	c.mu.Lock()
	url := c.url
	c.mu.Unlock()
	r, err := http.NewRequest(method, url+path, strings.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		return 0, false
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	answer, err := client.Do(r)
	if err != nil {
		return 0, false
	}
	defer answer.Body.Close()
	if begun, ok := into.(func(string)); ok {
		if answer.StatusCode == http.StatusOK {
			begun(answer.Header.Get("X-Execution-Id"))
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err == nil
	}
	if into == nil {
		return answer.StatusCode, true
	}
	err = json.NewDecoder(answer.Body).Decode(into)
	return answer.StatusCode, err == nil
}

func (c *chaos) must(t *testing.T, method, path, body string, into any) {
	t.Helper()
	if status, ok := c.ask(method, path, body, into); !ok || status >= 300 {
		t.Fatalf("%s %s: %d, %v\n%s", method, path, status, ok, c.runner)
	}
}

func (c *chaos) accept(what, key, execution string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = append(c.accepted, piece{what, key, execution, ""})
}

// acceptTask records a task. The receiver gets its effect under the key; empty: there is none.
func (c *chaos) acceptTask(what, key, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = append(c.accepted, piece{what, key, "", id})
}

// callers returns one caller for each kind of work. Each records the work that the runner has
// accepted.
func (c *chaos) callers(round int) []func() {
	key := func(what string) string { return fmt.Sprintf("%s-%d", what, round) }
	return []func(){
		func() { // the response begins after the turn is stored
			c.ask("POST", "/operate", `{"message":"note `+key("turn")+`","stream":true}`, func(execution string) {
				c.accept("a turn", key("turn"), execution)
			})
		},
		func() {
			var turn struct{ ExecutionID string }
			if status, ok := c.ask("POST", "/operate", `{"message":"pay `+key("approval")+`"}`, &turn); ok && status == http.StatusOK {
				c.accept("a turn that asks for an approval", key("approval"), turn.ExecutionID)
			}
		},
		func() {
			c.ask("POST", "/chat/messages", `{"message":"jot `+key("chat")+`","user":"`+key("visitor")+`","stream":true}`, func(execution string) {
				c.accept("a visitor's message", key("chat"), execution)
			})
		},
		func() {
			thread := c.threads[round%len(c.threads)]
			var e struct{ ID string }
			if status, ok := c.ask("POST", "/executions", `{"agent":"speaker"}`, &e); !ok || status >= 300 {
				return
			}
			status, ok := c.ask("POST", "/threads/"+thread+"/send", `{"executionId":"`+e.ID+`","body":"`+key("message")+`"}`, nil)
			if ok && status < 300 {
				c.accept("a message", key("message"), "")
			}
			within(afterACut, func() bool { // or at its next start
				status, ok = c.ask("POST", "/executions/"+e.ID+"/complete", `{}`, nil)
				return ok && status < 500
			})
		},
		func() { // one that is noted, and one that is said to the agent
			for event, what := range map[string]string{"note": "a webhook", "say": "a webhook that is said to the agent"} {
				var d struct{ ID string }
				if status, ok := c.hook(event, key("webhook-"+event), &d); ok && status < 300 {
					if event == "note" {
						d.ID = ""
					}
					c.accept(what, key("webhook-"+event), d.ID)
				}
			}
		},
		func() { // one that depends on the other; the agent completes both
			var first, second struct{ ID string }
			const about = `"retryBackoffSeconds":1,"metadata":{"requiredCapabilities":["pulling"]}`
			if status, ok := c.ask("POST", "/agent-tasks", `{"title":"`+key("task")+`",`+about+`}`, &first); !ok || status >= 300 {
				return
			}
			c.acceptTask("a task", "", first.ID)
			status, ok := c.ask("POST", "/agent-tasks", `{"title":"`+key("task")+`",`+about+`,"dependsOn":["`+first.ID+`"]}`, &second)
			if ok && status < 300 {
				c.acceptTask("a task that depends on another", "", second.ID)
			}
		},
		func() {
			var made struct{ ID string }
			status, ok := c.ask("POST", "/agent-tasks", `{"title":"`+key("built-in")+`","retryBackoffSeconds":1,"maxRetries":5,
				"metadata":{"requiredCapabilities":["building"]},"inputContext":{"key":"`+key("built-in")+`"}}`, &made)
			if ok && status < 300 {
				c.acceptTask("a task of the built-in worker", key("built-in"), made.ID)
			}
		},
		func() {
			var a, o struct{ ID string }
			status, ok := c.ask("POST", "/automations", `{"name":"`+key("automation")+`","skill":"note","input":{"key":"`+key("automation")+`"},
				"schedule":{"event":"objective.created"}}`, &a)
			waits := ok && status < 300
			if waits {
				c.automation = a.ID
			}
			status, ok = c.ask("POST", "/objectives", `{"title":"Do `+key("objective")+`","doneCriterion":"it is done"}`, &o)
			if !ok || status >= 300 {
				return
			}
			if waits {
				c.accept("an automation whose event came", key("automation"), "")
			}
			status, ok = c.ask("PUT", "/objectives/"+o.ID+"/steps", `{"steps":[{"title":"Do it","skill":"note","inputs":{"key":"`+key("objective")+`"}}]}`, nil)
			if ok && status < 300 {
				c.accept("an objective", key("objective"), "")
			}
			c.ask("POST", "/heartbeat/run", "", nil)
		},
	}
}

// round starts all callers, strikes at a random instant, restarts the runner if it has ended, and
// waits until all accepted work has finished.
func (c *chaos) round(t *testing.T) {
	t.Helper()
	c.rounds++
	var calling sync.WaitGroup
	for _, call := range c.callers(c.rounds) {
		calling.Go(call)
	}
	called := make(chan struct{})
	go func() { calling.Wait(); close(called) }()
	instant := time.NewTimer(time.Duration(c.random.Int64N(int64(1500 * time.Millisecond))))
	<-instant.C
	died := c.strike(t)
	begun := time.Now()
	beat, look := begun, begun
	limit := afterACut
	if died { // a request that died holds its Idempotency-Key for a while
		limit = moves + 15*time.Second
	}
	all := false
	var stuck []string
	if !within(limit, func() bool {
		if time.Now().Before(look) { // all looks together stay below the limit of requests
			return false
		}
		look = time.Now().Add(100 * time.Millisecond)
		c.approve()
		if time.Now().After(beat) { // more slots are due; a turn postpones scheduled beats for minutes
			c.ask("POST", "/heartbeat/run", "", nil)
			beat = time.Now().Add(time.Second)
		}
		select { // work that is accepted from here on is checked in the next pass
		case <-called:
			all = true
		default:
		}
		stuck = c.stuck()
		return all && len(stuck) == 0
	}) {
		t.Errorf("%s after %s, %v has not moved; all callers have their answers: %t", limit, c.struck, stuck, all)
	}
	c.slowest[died] = max(c.slowest[died], time.Since(begun))
	<-called
	for _, p := range c.accepted {
		if n := c.world.Effects(p.key); p.task != "" && p.key != "" && n > 1 {
			t.Errorf("%s %s had %d effects", p.what, p.key, n)
		}
	}
	if c.automation != "" { // it would also run for the event of the next round
		c.must(t, "DELETE", "/automations/"+c.automation, "", nil)
		c.automation = ""
	}
}

// strikes are dealt like cards: each occurs, in random order.
var strikes = []string{"SIGKILL", "SIGKILL", "SIGTERM", "its model", "its receiver", "its database"}

// strike applies one strike to the runner. It reports whether the runner has to be started again.
func (c *chaos) strike(t *testing.T) (died bool) {
	t.Helper()
	if len(c.deck) == 0 {
		c.deck = c.random.Perm(3 + len(c.proxies))
	}
	card := c.deck[0]
	c.deck, c.struck = c.deck[1:], strikes[card]
	if i := card - 3; i >= 0 {
		kind := []proxy.Kind{proxy.Cut, proxy.CutAnswer, proxy.HalfAnswer}[c.random.IntN(3)]
		c.struck = fmt.Sprintf("fault %d between the runner and %s", kind, strikes[card])
		c.proxies[i].Set(proxy.Fault{Kind: kind})
		held := time.NewTimer(time.Duration(c.random.Int64N(int64(500 * time.Millisecond))))
		<-held.C
		c.proxies[i].Set(proxy.Fault{})
		return false
	}
	signal := map[string]syscall.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM}[strikes[card]]
	kill(t, c.cmd, signal)
	if err := c.cmd.Wait(); signal == syscall.SIGTERM && err != nil {
		t.Errorf("drained, it ended with %v\n%s", err, c.runner)
	}
	c.start(t)
	return true
}

// approve approves all waiting calls.
func (c *chaos) approve() {
	var waiting struct {
		Items []struct{ ID string }
	}
	if _, ok := c.ask("GET", "/approvals?status=pending", "", &waiting); ok {
		for _, a := range waiting.Items {
			c.ask("POST", "/approvals/"+a.ID+"/approve", `{}`, nil)
		}
	}
}

// stuck returns the accepted work that has neither reached the receiver nor ended.
func (c *chaos) stuck() (all []string) {
	c.mu.Lock()
	accepted := slices.Clone(c.accepted)
	c.mu.Unlock()
	for _, p := range accepted[c.moved:] {
		if p.task == "" && c.world.Came(p.key) == 0 && !c.ended(p.execution) || p.task != "" && !c.completed(p.task) {
			all = append(all, p.what+" "+cmp.Or(p.key, p.task))
		}
	}
	if len(all) == 0 {
		c.moved = len(accepted)
	}
	return all
}

// completed reports whether a task is.
func (c *chaos) completed(task string) bool {
	var t struct{ Status string }
	_, ok := c.ask("GET", "/agent-tasks/"+task, "", &t)
	return ok && t.Status == "COMPLETED"
}

// ended reports whether an execution has ended.
func (c *chaos) ended(execution string) bool {
	if execution == "" {
		return false
	}
	var e struct{ Status string }
	_, ok := c.ask("GET", "/executions/"+execution, "", &e)
	return ok && slices.Contains([]string{"completed", "failed", "stalled", "cancelled"}, e.Status)
}
