package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

const (
	// ample is the time-out that the template sets for both functions.
	ample = 5 * time.Minute
	// short is the time-out of invocations that must reach it.
	short = 4 * time.Second
	// brief is the time-out of invocations under which Postgres crashes. A lane that could not be given back
	// is held that long, and so long do those wait who stand in line for it.
	brief = 30 * time.Second
	// leaseMargin is the time by which a hold outlives the invocation that has it.
	leaseMargin = 5 * time.Second
	// moves is the time limit within which everything continues after the leases of dead processes
	// have expired. For the work of beats it begins after people's turns and the grace after them.
	moves = time.Minute
)

// R34: the built functions are killed, stalled past their time-out, and cut off from their
// database, model and receiver at random instants, while the schedules continue. All accepted work
// continues by itself. The test counts accepted work by the responses that the callers received,
// and its effects by the requests that the receiver got. The test advances the database's clock
// minute by minute, each time that nothing runs.
func TestNothingStaysStuck(t *testing.T) {
	random := rand.New(rand.NewPCG(promise.Seed(t), 34))
	var deck []int
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R34", "SIGKILL, stalls and broken connections of the built functions on "+engine,
				fmt.Sprintf("0 stuck, 0 doubled; all moves within %s of the dead's leases, work of beats of people's turns and the grace", moves))
			s := newStorm(t, engine, random, &deck)
			s.sources(t, 1)
			for range promise.Figure(3, 150) {
				if s.round(t); t.Failed() {
					t.Fatalf("in round %d, %s\n%s", s.rounds, s.struck, s.evidence(t))
				}
				proof.Tell("%d strikes, %d accepted, 0 stuck, 0 doubled; the slowest %s after the leases, of beats %s; %d times work was left to the next slot",
					s.rounds, len(s.accepted), s.slowest[false], s.slowest[true], s.left)
			}
			if len(s.accepted) < s.rounds {
				t.Errorf("only %d pieces of work were accepted in %d rounds", len(s.accepted), s.rounds)
			}
		})
	}
}

func ending(log string) string { return log[max(0, len(log)-8000):] }

// storm is a stack whose processes and network the test controls, and the work that it has
// accepted.
type storm struct {
	*world
	random  *rand.Rand
	deck    *[]int // indexes of strikes
	outside *outside.World
	proxies []*proxy.Proxy // to the model, the receiver and the database
	operate *rig.Function
	heart   *rig.Function
	hook    *rig.Function
	chat    *rig.Function
	coord   *rig.Function
	worker  *rig.Function // which the coordinator invokes
	invoked chan struct{} // tells that it was
	aws     *rig.AWS
	agent   string // pulls tasks
	bearer  string // its token

	crashes *crashes // nil: the database is not the storm's own

	rounds  int
	slots   int // number of slots so far
	left    int // rounds whose beats left work to the next slot
	struck  string
	began   time.Time              // begin of the round on the database's clock
	here    time.Time              // begin of the round on this process's clock
	moved   int                    // how many of accepted, from the first on, have finished
	slowest map[bool]time.Duration // time until everything continued; true: work of beats

	mu       sync.Mutex
	timeout  time.Duration // of the invocations in this round
	flying   map[*rig.Function][]*rig.Invocation
	accepted []piece
	threads  []string
	unended  []string // executions that their agents could not complete yet
}

// piece is accepted work. The receiver gets its effect with the text key. A piece with an execution
// may instead end without the effect and give a reason. A piece with a task ends when that is completed;
// its effect is one at most.
type piece struct {
	what, key, execution string

	task  string
	beats bool // a beat does the work
}

func newStorm(t *testing.T, engine string, random *rand.Rand, deck *[]int) *storm {
	t.Helper()
	w := newDatabase(t)
	return stormOn(t, w, w.login(t, engine), random, deck)
}

// stormOn returns a storm over a database that functions log in to at that URL.
func stormOn(t *testing.T, w *world, login string, random *rand.Rand, deck *[]int) *storm {
	t.Helper()
	s := &storm{world: w, random: random, deck: deck, outside: outside.Start(), slowest: map[bool]time.Duration{},
		timeout: ample, flying: map[*rig.Function][]*rig.Invocation{}, invoked: make(chan struct{}, 1)}
	t.Cleanup(s.outside.Close)
	s.exec(t, `INSERT INTO workspaces (id, slug, name) VALUES ($1, $2, 'Default')`, string(workspace.Default), workspace.DefaultSlug)
	through := func(rawURL string) string {
		p, err := proxy.Start(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.proxies = append(s.proxies, p)
		return p.URL
	}
	model, receiver := through(s.outside.URL+"/model"), through(s.outside.URL)
	at, err := url.Parse(receiver)
	if err != nil {
		t.Fatal(err)
	}
	if s.aws, err = rig.StartAWS(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.aws.Close)
	env := rig.Env(s.aws.Env(), map[string]string{
		"DATABASE_URL": through(login), "ADMIN_TOKEN": token, "SECRET_KEY_FILE": filepath.Join(t.TempDir(), "key"), "WORKER_FUNCTION": "worker",
		"LLM_PROVIDER": "openai", "LLM_MODEL": "x", "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": model, "ALLOW_PRIVATE_HOSTS": at.Host,
	})
	s.operate, s.heart, s.hook = s.start(t, "operate", env), s.start(t, "heartbeat", env), s.start(t, "webhook", env)
	s.chat = s.start(t, "chat", env)
	s.coord, s.worker = s.start(t, "coordinator", env), s.start(t, "worker", env)
	s.agent = uuid.NewString()
	var made struct{ Token string }
	s.must(t, "PUT", "/agents/"+s.agent, `{"name":"puller","capabilities":["pulling"],"maxConcurrentTasks":5}`, &made)
	s.bearer = made.Token
	s.must(t, "PUT", "/agents/"+uuid.NewString(), `{"name":"built in","spawner":"builtin","capabilities":["building"],"maxConcurrentTasks":5}`, nil)
	for name, more := range map[string]string{"note": "", "pay": `"requiresApproval":true,`, "jot": `"scope":"external",`} {
		s.must(t, "POST", "/skills", `{"name":"`+name+`","kind":"http","description":"Does it.",`+more+`
			"parameters":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]},
			"config":{"url":"`+receiver+`/`+name+`","idempotencyKeyHeader":"Idempotency-Key"}}`, nil)
	}
	s.must(t, "POST", "/secrets", `{"name":"channel.http","value":"a-text-that-signs-what-is-said"}`, nil)
	for i := range 3 {
		var thread struct{ ID string }
		s.must(t, "POST", "/threads", fmt.Sprintf(`{"channel":"http","address":"%s/said/%d"}`, receiver, i), &thread)
		s.threads = append(s.threads, thread.ID)
	}
	return s
}

// login returns the database's URL for functions on an engine.
func (w *world) login(t *testing.T, engine string) string {
	t.Helper()
	login, err := url.Parse(dbtest.AsLogin(w.owner))
	if err != nil {
		t.Fatal(err)
	}
	if engine == dbtest.OnPgBouncer {
		pooler, err := url.Parse(dbtest.Servers(t).PgBouncerURL)
		if err != nil {
			t.Fatal(err)
		}
		login.Host, login.RawQuery = pooler.Host, pooler.RawQuery
	}
	return login.String()
}

func (s *storm) start(t *testing.T, function string, env map[string]string) *rig.Function {
	t.Helper()
	bootstrap, err := rig.Build(t.Context(), "github.com/lanekeeper/lanekeeper/functions/"+function)
	if err != nil {
		t.Fatal(err)
	}
	// An event is retried when the fault is over.
	f, err := rig.Start(t.Context(), rig.Config{
		Bootstrap: bootstrap, Name: function, Env: env, Timeout: ample, FreezeBetween: true, RetryDelay: longestFault + 200*time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

const token = "open-sesame-open-sesame"

// ask sends a request to the API like a function URL. ok is false if there is no complete response.
func (s *storm) ask(ctx context.Context, method, path, body string, into any) (status int, ok bool) {
	return s.askOf(ctx, s.operate, method, path, body, into)
}

// toURL returns a request to the API in the form of a function URL; key "" means no Idempotency-Key.
func toURL(method, path, key, body string) []byte {
	path, query, _ := strings.Cut(path, "?")
	headers := map[string]string{"authorization": "Bearer " + token, "content-type": "application/json"}
	if key != "" {
		headers["idempotency-key"] = key
	}
	event, _ := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": "/api/v1" + path, "rawQueryString": query, "body": body, "headers": headers,
		"requestContext": map[string]any{
			"stage": "$default", "domainName": "u7x.lambda-url.eu-central-1.on.aws",
			"http": map[string]string{"method": method, "sourceIp": "198.51.100.7"},
		},
	})
	return event
}

// askOf is ask of a function.
func (s *storm) askOf(ctx context.Context, f *rig.Function, method, path, body string, into any) (status int, ok bool) {
	inv, err := s.begin(ctx, f, toURL(method, path, "", body))
	if err != nil {
		return 0, false
	}
	res, err := inv.Wait(ctx)
	if err != nil {
		return 0, false
	}
	prelude, text, begun := bytes.Cut(res.Payload, make([]byte, 8))
	var head struct {
		StatusCode int
		Headers    map[string]string
	}
	if !begun || json.Unmarshal(prelude, &head) != nil {
		return 0, false
	}
	if begun, ok := into.(func(string)); ok { // the caller has read this part, whatever happens to the rest
		for name, value := range head.Headers {
			if strings.EqualFold(name, "X-Execution-Id") {
				begun(value)
			}
		}
	}
	if res.FunctionError != nil {
		return head.StatusCode, false
	}
	if into == nil || head.StatusCode >= http.StatusMultipleChoices {
		return head.StatusCode, true
	}
	return head.StatusCode, json.Unmarshal(text, into) == nil
}

// begin begins an invocation that a strike can hit.
func (s *storm) begin(ctx context.Context, f *rig.Function, event []byte) (*rig.Invocation, error) {
	s.mu.Lock()
	timeout := s.timeout
	s.mu.Unlock()
	inv, err := f.Begin(ctx, event, rig.WithTimeout(timeout))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying[f] = append(s.flying[f], inv)
	return inv, nil
}

func (s *storm) must(t *testing.T, method, path, body string, into any) {
	t.Helper()
	if status, ok := s.ask(t.Context(), method, path, body, into); !ok || status >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d, %v\n%s", method, path, status, ok, ending(s.operate.Logs()))
	}
}

func (s *storm) accept(p piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, p)
}

// talks returns callers that begin turns and record the accepted ones.
func (s *storm) talks(ctx context.Context) []func() {
	return []func(){
		func() { // the response begins after the turn is stored
			key := fmt.Sprintf("turn-%d", s.rounds)
			s.ask(ctx, "POST", "/operate", `{"message":"note `+key+`","stream":true}`, func(execution string) {
				s.accept(piece{what: "a turn", key: key, execution: execution})
			})
		},
		func() {
			key := fmt.Sprintf("approval-%d", s.rounds)
			s.ask(ctx, "POST", "/operate", `{"message":"pay `+key+`","stream":true}`, func(execution string) {
				s.accept(piece{what: "a turn that asks for an approval", key: key, execution: execution})
			})
		},
	}
}

// visits returns a caller that says something as a visitor of a chat.
func (s *storm) visits(ctx context.Context) []func() {
	return []func(){
		func() {
			key := fmt.Sprintf("chat-%d", s.rounds)
			body := fmt.Sprintf(`{"message":"jot %s","user":"visitor-%d","stream":true}`, key, s.rounds)
			s.askOf(ctx, s.chat, "POST", "/chat/messages", body, func(execution string) {
				s.accept(piece{what: "a visitor's message", key: key, execution: execution})
			})
		},
	}
}

// hooks returns callers that send webhooks: one is noted, and one is said to the agent. The
// schedule's minute may come while they are handled.
func (s *storm) hooks(ctx context.Context) []func() {
	send := func(event, key string) acknowledged {
		inv, err := s.begin(ctx, s.hook, request(0, key, event, bodyOf(key)))
		if err != nil {
			return acknowledged{}
		}
		return answerTo(inv.Wait(ctx))
	}
	return []func(){
		func() {
			key := fmt.Sprintf("webhook-%d", s.rounds)
			if a := send("note", key); a.ok() {
				s.accept(piece{what: "a webhook", key: key})
			}
			key = fmt.Sprintf("webhook-said-%d", s.rounds)
			if a := send("say", key); a.ok() {
				s.accept(piece{what: "a webhook that is said to the agent", key: key, execution: a.ID})
			}
			if inv, err := s.begin(ctx, s.operate, []byte(`{"source":"lanekeeper.tend"}`)); err == nil {
				_, _ = inv.Wait(ctx) // the next minute does the rest
			}
		},
	}
}

// tasks returns callers that create tasks, and an agent that does them, all through the coordinator.
func (s *storm) tasks(ctx context.Context) []func() {
	return []func(){
		func() {
			var first, second struct{ ID string }
			about := fmt.Sprintf(`{"title":"task-%d","retryBackoffSeconds":1,"metadata":{"requiredCapabilities":["pulling"]}`, s.rounds)
			if s.tell(ctx, token, "POST", "/agent-tasks", about+"}", &first) != http.StatusCreated {
				return
			}
			s.accept(piece{what: "a task", key: first.ID, task: first.ID})
			body := fmt.Sprintf(`%s,"dependsOn":[%q]}`, about, first.ID)
			if s.tell(ctx, token, "POST", "/agent-tasks", body, &second) == http.StatusCreated {
				s.accept(piece{what: "a task that depends on another", key: second.ID, task: second.ID})
			}
		},
		func() {
			var made struct{ ID string }
			key := fmt.Sprintf("built-in-%d", s.rounds)
			body := fmt.Sprintf(`{"title":%q,"retryBackoffSeconds":1,"maxRetries":5,"inputContext":{"key":%q},
				"metadata":{"requiredCapabilities":["building"]}}`, key, key)
			if s.tell(ctx, token, "POST", "/agent-tasks", body, &made) == http.StatusCreated {
				s.accept(piece{what: "a task of the built-in worker", key: key, task: made.ID})
			}
			if inv, err := s.begin(ctx, s.coord, []byte(`{"by":"hand"}`)); err == nil {
				_, _ = inv.Wait(ctx) // the next minute does the rest
			}
		},
		func() {
			s.pull(ctx)
			if inv, err := s.begin(ctx, s.coord, []byte(`{"by":"hand"}`)); err == nil {
				_, _ = inv.Wait(ctx) // the next minute does the rest
			}
			s.pull(ctx)
		},
	}
}

// pull lets the agent complete what it has, and claim and complete what it gets.
func (s *storm) pull(ctx context.Context) {
	s.tell(ctx, s.bearer, "POST", "/agents/"+s.agent+"/heartbeat", `{"status":"WORKING"}`, nil)
	var had struct{ Items []held }
	s.tell(ctx, s.bearer, "GET", "/agents/"+s.agent+"/tasks?status=RUNNING", "", &had)
	complete := func(h held) {
		s.tell(ctx, s.bearer, "POST", "/agent-tasks/"+h.ID+"/complete", fmt.Sprintf(`{"attempt":%d}`, h.Attempt), nil)
	}
	for _, h := range had.Items {
		complete(h)
	}
	for {
		var h held
		if s.tell(ctx, s.bearer, "POST", "/agents/"+s.agent+"/claim", `{}`, &h) != http.StatusOK {
			return
		}
		complete(h)
	}
}

// tell sends a request to the coordinator in the form that its HTTP API passes on. The status is 0 if
// there is no response.
func (s *storm) tell(ctx context.Context, bearer, method, path, body string, into any) (status int) {
	path, query, _ := strings.Cut(path, "?")
	event, _ := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": "/api/v1" + path, "rawQueryString": query, "body": body,
		"headers": map[string]string{"authorization": "Bearer " + bearer, "content-type": "application/json"},
		"requestContext": map[string]any{
			"stage": "$default", "domainName": "jkl012.execute-api.eu-central-1.amazonaws.com",
			"http": map[string]string{"method": method, "path": "/api/v1" + path, "sourceIp": "198.51.100.7"},
		},
	})
	inv, err := s.begin(ctx, s.coord, event)
	if err != nil {
		return 0
	}
	res, err := inv.Wait(ctx)
	var whole struct {
		StatusCode int
		Body       string
	}
	if err != nil || res.FunctionError != nil || json.Unmarshal(res.Payload, &whole) != nil {
		return 0
	}
	if into != nil && whole.StatusCode < http.StatusMultipleChoices && json.Unmarshal([]byte(whole.Body), into) != nil {
		return 0
	}
	return whole.StatusCode
}

// works returns callers that speak in a thread, and callers that create work for beats.
func (s *storm) works(ctx context.Context, t *testing.T) []func() {
	key := func(what string) string { return fmt.Sprintf("%s-%d", what, s.rounds) }
	return []func(){
		func() {
			var e struct{ ID string }
			if status, ok := s.ask(ctx, "POST", "/executions", `{"agent":"speaker"}`, &e); !ok || status >= 300 {
				return
			}
			thread := s.threads[s.rounds%len(s.threads)]
			status, ok := s.ask(ctx, "POST", "/threads/"+thread+"/send", `{"executionId":"`+e.ID+`","body":"`+key("message")+`"}`, nil)
			if ok && status < 300 {
				s.accept(piece{what: "a message", key: key("message")})
			}
			s.done(ctx, e.ID)
		},
		func() {
			defer s.slot(ctx, t)
			var o struct{ ID string }
			status, ok := s.ask(ctx, "POST", "/automations", `{"name":"`+key("automation")+`","skill":"note","input":{"key":"`+key("automation")+`"},
				"schedule":{"event":"objective.created"}}`, nil)
			waits := ok && status < 300
			status, ok = s.ask(ctx, "POST", "/objectives", `{"title":"Do `+key("objective")+`","doneCriterion":"it is done"}`, &o)
			if !ok || status >= 300 {
				return
			}
			if waits {
				s.accept(piece{what: "an automation whose event came", key: key("automation"), beats: true})
			}
			steps := `{"steps":[{"title":"Do it","skill":"note","inputs":{"key":"` + key("objective") + `"}}]}`
			if status, ok = s.ask(ctx, "PUT", "/objectives/"+o.ID+"/steps", steps, nil); ok && status < 300 {
				s.accept(piece{what: "an objective", key: key("objective"), beats: true})
			}
		},
	}
}

// done completes a speaker's execution. If no response comes, it is completed later.
func (s *storm) done(ctx context.Context, execution string) {
	if status, ok := s.ask(ctx, "POST", "/executions/"+execution+"/complete", `{}`, nil); !ok || status >= 500 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unended = append(s.unended, execution)
	}
}

// slotTime returns the time of the last slot.
func (s *storm) slotTime() time.Time {
	return time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).Add(time.Duration(s.slots) * 30 * time.Minute)
}

// slot delivers the schedule's next slot, as an event that Lambda tries up to three times.
func (s *storm) slot(ctx context.Context, t *testing.T) {
	s.slots++
	event := []byte(`{"source":"lanekeeper.schedule","slot":"` + s.slotTime().Format(time.RFC3339) + `"}`)
	for range 3 {
		inv, err := s.begin(ctx, s.heart, event)
		if err != nil {
			return
		}
		res, err := inv.Wait(ctx)
		if err != nil || res.FunctionError == nil {
			return
		}
		again := time.NewTimer(longestFault + 200*time.Millisecond)
		<-again.C
		s.crashes.wait()
	}
	t.Errorf("the slot is a dead letter\n%s", ending(s.heart.Logs()))
}

// round starts all callers, strikes at a random instant, and waits until all accepted work has
// finished.
func (s *storm) round(t *testing.T) {
	t.Helper()
	s.rounds++
	s.here = time.Now()
	s.began = s.here.Add(s.ahead)
	card := s.deal()
	s.timeout = ample
	switch {
	case card.stall || card.silent():
		s.timeout = short
	case card.crash:
		s.timeout = brief
	}
	s.aws.Forward("worker", s.worker, rig.WithTimeout(s.timeout), func(*rig.Invocation) {
		select {
		case s.invoked <- struct{}{}:
		default:
		}
	})
	select {
	case <-s.invoked: // of an earlier round
	default:
	}
	ctx := t.Context()
	calls := slices.Concat(s.works(ctx, t), s.hooks(ctx), s.visits(ctx), s.tasks(ctx))
	if !slices.Contains(card.strikes, s.heart) { // otherwise turns would postpone its beat
		calls = append(calls, s.talks(ctx)...)
	}
	var calling sync.WaitGroup
	for _, call := range calls {
		calling.Go(call)
	}
	instant := time.NewTimer(time.Duration(s.random.Int64N(int64(900 * time.Millisecond))))
	<-instant.C
	s.strike(t, card)
	calling.Wait() // each ends by itself or by its time-out
	s.workerEnds(t)
	s.flying = map[*rig.Function][]*rig.Invocation{}
	lease := s.timeout + leaseMargin
	s.timeout = ample
	s.aws.Forward("worker", s.worker)
	s.unanswered(t)
	s.advance(t, lease)
	for after := time.Duration(0); ; after += moves {
		kept := s.keepOff(t)
		s.minute(t)
		kept = kept || s.keepOff(t)
		stuck, _ := s.stuck(t)
		beats := s.cutOff(t) // work that completed beats did not reach is left to the next slot
		if len(stuck)+len(beats) == 0 {
			break
		}
		if len(stuck) > 0 {
			s.slowest[false] = max(s.slowest[false], after+moves)
		}
		if len(beats) > 0 {
			s.slowest[true] = max(s.slowest[true], after+moves)
		}
		if after >= moves && (len(stuck) > 0 || !kept) || after >= longest {
			t.Errorf("%s after the leases of what was struck by %s, there has not moved %q, of beats %q", after, card.name, stuck, beats)
			return
		}
		s.advance(t, moves)
	}
	if _, left := s.stuck(t); len(left) > 0 {
		s.left++
		s.settledEvents(t)
		s.advance(t, 30*time.Minute)
		s.slot(t.Context(), t)
	}
	if _, left := s.stuck(t); len(left) > 0 {
		t.Errorf("after a further slot, behind %s, there has not moved %q", card.name, left)
	}
	s.moved = len(s.accepted)
	if twice := s.outside.Doubled(); len(twice) > 0 {
		t.Errorf("doubled: %v", twice)
	}
	// They would also run for the event of the next round.
	for _, id := range s.texts(t, `SELECT id::text FROM agent_automations`) {
		s.must(t, "DELETE", "/automations/"+id, "", nil)
	}
}

// longest is the longest time for which people's turns may postpone beats in a round.
const longest = 10 * time.Minute

// keepOff reports whether a person's turn, or the grace after it, postpones beats.
func (s *storm) keepOff(t *testing.T) bool {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM agent_locks
		WHERE lane = 'operate' AND execution_id IS NOT NULL AND expires_at + interval '2 minutes' > lk_now()`) > 0
}

// unanswered waits until the server has finished the requests of dead processes.
func (s *storm) unanswered(t *testing.T) {
	t.Helper()
	s.none(t, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND usename = 'lanekeeper_login' AND state IN ('active', 'idle in transaction')`)
}

// none waits until a count is zero, for at most two minutes.
func (s *storm) none(t *testing.T, count string) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); s.count(t, count) > 0; s.exec(t, `SELECT pg_sleep(0.01)`) {
		if time.Now().After(until) {
			t.Fatalf("in two minutes it has not become 0: %s", count)
		}
	}
}

// settledEvents waits until no open transaction in the cluster, perhaps of another test, delays an
// event.
func (s *storm) settledEvents(t *testing.T) {
	t.Helper()
	s.none(t, `SELECT count(*) FROM events WHERE xid >= lk_settled()`)
}

// workerEnds waits until the worker has nothing to do: it is invoked asynchronously.
func (s *storm) workerEnds(t *testing.T) {
	t.Helper()
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// minute is one minute of the schedule, in which people approve all waiting calls.
func (s *storm) minute(t *testing.T) {
	t.Helper()
	inv, err := s.begin(t.Context(), s.operate, []byte(`{"source":"lanekeeper.tend"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := inv.Wait(t.Context()); err != nil || res.FunctionError != nil {
		t.Fatalf("tend: %v, %+v", err, res)
	}
	if inv, err = s.begin(t.Context(), s.coord, []byte(`{"by":"hand"}`)); err != nil {
		t.Fatal(err)
	}
	if res, err := inv.Wait(t.Context()); err != nil || res.FunctionError != nil {
		t.Fatalf("cycle: %v, %+v", err, res)
	}
	s.workerEnds(t)
	s.pull(t.Context())
	var waiting struct {
		Items []struct{ ID string }
	}
	s.must(t, "GET", "/approvals?status=pending", "", &waiting)
	for _, a := range waiting.Items {
		s.must(t, "POST", "/approvals/"+a.ID+"/approve", `{}`, nil)
	}
	late := s.unended
	s.unended = nil
	for _, id := range late {
		s.done(t.Context(), id)
	}
}

// stuck returns the accepted work that has neither reached the receiver nor ended. It returns the
// work of beats separately.
func (s *storm) stuck(t *testing.T) (all, beats []string) {
	t.Helper()
	for _, p := range s.accepted[s.moved:] {
		switch {
		case p.task != "":
			if s.count(t, `SELECT count(*) FROM agent_tasks WHERE id = $1 AND status = 'COMPLETED'`, p.task) == 0 {
				all = append(all, p.what+" "+p.key)
			}
		case s.outside.Came(p.key) > 0:
		case p.beats && s.count(t, `SELECT (SELECT count(*) FROM executions e JOIN agent_automations a ON e.subject = 'automation:' || a.id
				  WHERE a.name = $1 AND e.status IN ('failed', 'stalled'))
				+ (SELECT count(*) FROM agent_objectives WHERE title = 'Do ' || $1 AND status = 'paused')`, p.key) > 0: // it ended and gives a reason
		case p.beats:
			beats = append(beats, p.what+" "+p.key)
		case p.execution == "" || s.count(t, `SELECT count(*) FROM executions
				WHERE id = $1 AND status IN ('completed', 'failed', 'stalled', 'cancelled')`, p.execution) == 0:
			all = append(all, p.what+" "+p.key)
		}
	}
	return all, beats
}

// cutOff returns the unfinished beats, and the last slot if no beat has run it.
func (s *storm) cutOff(t *testing.T) []string {
	t.Helper()
	return s.texts(t, `SELECT id || ' ' || coalesce(slot, 'by hand') FROM executions WHERE subject = 'heartbeat' AND status = 'running'
		UNION ALL SELECT 'the slot ' || $1 WHERE NOT EXISTS (SELECT 1 FROM executions WHERE surface = 'hb' AND right(slot, 17) >= $1)`,
		s.slotTime().Format("2006-01-02T15:04Z"))
}

// strike is one failure: processes of functions die or stall, a connection is cut, or Postgres crashes.
type strike struct {
	name    string
	strikes []*rig.Function
	stall   bool
	cut     *proxy.Proxy
	kind    proxy.Kind
	crash   bool
}

func (s strike) silent() bool { return s.kind == proxy.Swallow || s.kind == proxy.SwallowAnswers }

const longestFault = 500 * time.Millisecond

// deal returns the next strike. Strikes are dealt like cards: each occurs, in random order.
func (s *storm) deal() strike {
	if s.crashes != nil {
		s.struck = "a crash of Postgres"
		return strike{name: s.struck, crash: true}
	}
	operate, heart := []*rig.Function{s.operate}, []*rig.Function{s.heart}
	cards := []strike{
		{name: "SIGKILL of operate", strikes: operate},
		{name: "SIGKILL of the heartbeat", strikes: heart},
		{name: "SIGKILL of both", strikes: slices.Concat(operate, heart)},
		{name: "SIGKILL of the webhook function", strikes: []*rig.Function{s.hook}},
		{name: "SIGKILL of operate and the webhook function", strikes: []*rig.Function{s.operate, s.hook}},
		{name: "a stall of the webhook function", strikes: []*rig.Function{s.hook}, stall: true},
		{name: "SIGKILL of chat", strikes: []*rig.Function{s.chat}},
		{name: "a stall of chat", strikes: []*rig.Function{s.chat}, stall: true},
		{name: "a stall of operate", strikes: operate, stall: true},
		{name: "a stall of the heartbeat", strikes: heart, stall: true},
		{name: "SIGKILL of the coordinator", strikes: []*rig.Function{s.coord}},
		{name: "SIGKILL of the coordinator and operate", strikes: []*rig.Function{s.coord, s.operate}},
		{name: "a stall of the coordinator", strikes: []*rig.Function{s.coord}, stall: true},
		{name: "SIGKILL of the worker", strikes: []*rig.Function{s.worker}},
		{name: "SIGKILL of the worker and the coordinator", strikes: []*rig.Function{s.worker, s.coord}},
		{name: "a stall of the worker", strikes: []*rig.Function{s.worker}, stall: true},
		{name: "the way to the model", cut: s.proxies[0]},
		{name: "the way to the receiver", cut: s.proxies[1]},
		{name: "the way to the database", cut: s.proxies[2]},
	}
	if len(*s.deck) == 0 {
		*s.deck = s.random.Perm(len(cards))
	}
	card := cards[(*s.deck)[0]]
	*s.deck = (*s.deck)[1:]
	if card.cut != nil {
		card.kind = []proxy.Kind{proxy.Cut, proxy.CutAnswer, proxy.HalfAnswer, proxy.Swallow, proxy.SwallowAnswers}[s.random.IntN(5)]
		card.name = fmt.Sprintf("fault %d on %s", card.kind, card.name)
	}
	s.struck = card.name
	return card
}

func (s *storm) strike(t *testing.T, card strike) {
	t.Helper()
	if card.crash {
		s.crash(t)
		return
	}
	if card.cut != nil {
		card.cut.Set(proxy.Fault{Kind: card.kind})
		held := time.NewTimer(time.Duration(s.random.Int64N(int64(longestFault))))
		<-held.C
		card.cut.Set(proxy.Fault{})
		return
	}
	if slices.Contains(card.strikes, s.worker) { // it begins when the others have done their part
		late := time.NewTimer(10 * time.Second)
		defer late.Stop()
		select {
		case <-s.invoked:
		case <-late.C:
		}
		instant := time.NewTimer(time.Duration(s.random.Int64N(int64(300 * time.Millisecond))))
		<-instant.C
	}
	for _, f := range card.strikes {
		s.mu.Lock()
		all := slices.Clone(s.flying[f])
		s.mu.Unlock()
		if f == s.worker { // it is not invoked by the test
			all = f.Running()
		}
		for _, inv := range all {
			if card.stall {
				_ = inv.Freeze() // does nothing if it has ended
			} else {
				_ = inv.Kill()
			}
		}
	}
}
