package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/quiet"
	"github.com/lanekeeper/lanekeeper/shared/retain"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// desk is a handler that honours idempotency keys and counts the requests that it executes.
type desk struct {
	*world
	http.Handler
	by   auth.Principal
	done *atomic.Int64
}

// serving returns a desk whose requests are executed by work. before is the number of earlier
// requests.
func (w *world) serving(t testing.TB, k deskOf, work func(rw http.ResponseWriter, r *http.Request, before int64)) *desk {
	t.Helper()
	d := &desk{world: w, by: auth.Principal{Workspace: w.Workspace, Kind: auth.Local, ID: "ada", Role: auth.Admin}, done: new(atomic.Int64)}
	if k.route == "" {
		k.route = "create-thing"
	}
	deps := w.Deps
	h, err := api.NewIdempotent(deps, k.route, k.sensitive, k.within, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		work(rw, r, d.done.Add(1)-1)
	}))
	if err != nil {
		t.Fatal(err)
	}
	d.Handler = h
	return d
}

type deskOf struct {
	route     string
	sensitive bool
	within    time.Duration
}

// post sends a request with a key; "" means no key.
func (d *desk) post(t testing.TB, key, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := request(http.MethodPost, path, "", body)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return d.send(t, r)
}

func (d *desk) send(t testing.TB, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, r.WithContext(auth.With(r.Context(), d.by)))
	return rec
}

// is returns an error if a response has not the given status and problem code.
func is(rec *httptest.ResponseRecorder, status int, code string) error {
	if rec.Code != status || code != "" && !strings.Contains(rec.Body.String(), `"code":"`+code+`"`) {
		return fmt.Errorf("%d %.300s, want %d %s", rec.Code, rec.Body, status, code)
	}
	return nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// creating answers 201 with the number of earlier requests.
func creating(rw http.ResponseWriter, _ *http.Request, before int64) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Location", "/things/1")
	rw.Header().Set("X-Trace-Id", "of this request")
	rw.WriteHeader(http.StatusCreated)
	fmt.Fprintf(rw, `{"n":%d}`, before)
}

func TestTheSameRequestIsDoneOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := w.serving(t, deskOf{}, creating)
		cost := func(fn func()) db.Stats {
			before := w.Deps.DB.Stats()
			fn()
			return w.Deps.DB.Stats().Sub(before)
		}
		var first *httptest.ResponseRecorder
		if got, want := cost(func() { first = d.post(t, "k", "/things?a=1", `{"x":1}`) }), (db.Stats{Statements: 2, RoundTrips: 2}); got != want {
			t.Errorf("it cost %+v, want %+v", got, want)
		}
		check(t, is(first, http.StatusCreated, ""))
		if first.Header().Get("Idempotency-Replayed") != "" || first.Body.String() != `{"n":0}` {
			t.Errorf("first: %v %s", first.Header(), first.Body)
		}
		for range 2 {
			again := d.post(t, "k", "/things?a=1", `{"x":1}`)
			check(t, is(again, http.StatusCreated, ""))
			h := again.Header()
			if h.Get("Idempotency-Replayed") != "true" || h.Get("Location") != "/things/1" || h.Get("Content-Type") != "application/json" ||
				h.Get("X-Trace-Id") != "" || again.Body.String() != `{"n":0}` {
				t.Errorf("again: %v %s", h, again.Body)
			}
		}
		if n := d.done.Load(); n != 1 {
			t.Errorf("done %d times", n)
		}
		// another request with the same key
		check(t, is(d.post(t, "k", "/things?a=1", `{"x":2}`), http.StatusUnprocessableEntity, "key_reused"))
		check(t, is(d.post(t, "k", "/things?a=2", `{"x":1}`), http.StatusUnprocessableEntity, "key_reused"))
		check(t, is(d.post(t, "k", "/others?a=1", `{"x":1}`), http.StatusUnprocessableEntity, "key_reused"))
		// Without a key each request is executed, and nothing is stored.
		if got := cost(func() { check(t, is(d.post(t, "", "/things?a=1", `{"x":1}`), http.StatusCreated, "")) }); got != (db.Stats{}) {
			t.Errorf("without a key it cost %+v", got)
		}
	})
}

// A key is valid for one principal and one route of one workspace.
func TestKeysOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := w.serving(t, deskOf{}, creating)
		d.post(t, "k", "/things", `{}`)
		for name, by := range map[string]auth.Principal{
			"workspace": {Workspace: dbtest.NewWorkspace(t, w.Deps.DB), Kind: d.by.Kind, ID: d.by.ID},
			"principal": {Workspace: w.Workspace, Kind: d.by.Kind, ID: "bob"},
			"kind":      {Workspace: w.Workspace, Kind: "agent", ID: d.by.ID},
		} {
			other := *d
			other.by = by
			if rec := other.post(t, "k", "/things", `{}`); rec.Header().Get("Idempotency-Replayed") != "" || rec.Code != http.StatusCreated {
				t.Errorf("of another %s: %d %v", name, rec.Code, rec.Header())
			}
		}
		route := w.serving(t, deskOf{route: "other"}, creating)
		if rec := route.post(t, "k", "/things", `{}`); rec.Header().Get("Idempotency-Replayed") != "" {
			t.Error("of another route: replayed")
		}
		if rec := d.post(t, "K", "/things", `{}`); rec.Header().Get("Idempotency-Replayed") != "" {
			t.Error("in another case: replayed")
		}
	})
}

func TestManyOfTheSameRequest(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		d := w.serving(t, deskOf{}, func(rw http.ResponseWriter, r *http.Request, before int64) {
			<-release // until another request has been refused
			creating(rw, r, before)
		})
		var refused sync.Once
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				rec := d.post(t, "k", "/things", `{}`)
				switch {
				case is(rec, http.StatusConflict, "in_progress") == nil:
					if rec.Header().Get("Retry-After") != "2" {
						t.Errorf("Retry-After %q", rec.Header().Get("Retry-After"))
					}
					refused.Do(func() { close(release) })
				case is(rec, http.StatusCreated, "") == nil && rec.Body.String() == `{"n":0}`:
				default:
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
			})
		}
		wg.Wait()
		if n := d.done.Load(); n != 1 {
			t.Errorf("done %d times", n)
		}
		if rec := d.post(t, "k", "/things", `{}`); rec.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
		}
	})
}

// loses has the workspace's responses lost, as if the process had died after a commit and before it stored them.
func (w *world) loses(t testing.TB) {
	t.Helper()
	if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).LoseAnswers); err != nil {
		t.Fatal(err)
	}
	w.Skew.Advance(16 * time.Minute)
}

// A process dies after it has committed what a request creates, and before it has stored the response. The repeated
// request gets what was created; where that shows a secret, it is told that it was done.
func TestACommittedRequestIsNotDoneAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var project, parent struct{ ID string }
		w.must(t, 201, http.MethodPost, "/api/v1/projects", `{"name":"of milestones"}`, &project)
		w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"parent"}`, &parent)
		for i, c := range []struct {
			path, body string
			again      int
		}{
			{agentTasks, `{"title":"once"}`, 201},
			{"/api/v1/executions", `{"agent":"once"}`, 201},
			{"/api/v1/executions", `{"agent":"once","parentExecutionId":"` + parent.ID + `","waitForCompletion":true}`, 201},
			{"/api/v1/objectives", `{"title":"once"}`, 201},
			{"/api/v1/memories", `{"category":"once","content":"once"}`, 201},
			{"/api/v1/projects", `{"name":"once"}`, 201},
			{"/api/v1/milestones", `{"projectId":"` + project.ID + `","name":"once"}`, 201},
			{"/api/v1/skills", `{"name":"once","kind":"http","description":"once","config":{"url":"https://once.example/"}}`, 201},
			{"/api/v1/automations", `{"name":"once","skill":"once","schedule":{"cron":"@daily"}}`, 201},
			{"/api/v1/budgets", month("agent", "once", 1), 201},
			{"/api/v1/workspaces", `{"slug":"once-` + string(w.Workspace)[:8] + `","name":"once","owner":"once@example.org"}`, 201},
			{"/api/v1/threads", `{"channel":"log","address":"once"}`, 201},
			{"/api/v1/webhook-sources", `{"name":"given","kind":"github","secret":"it is its secret"}`, 201},
			{"/api/v1/webhook-sources", `{"name":"made","kind":"github"}`, 409},
			{"/api/v1/webhook-endpoints", `{"url":"https://once.example/","events":["*"]}`, 409},
			{"/api/v1/api-keys", `{"name":"once","role":"MEMBER","scopes":["*"]}`, 409},
			{"/api/v1/site-keys", `{"name":"once"}`, 409},
		} {
			send := func() result {
				return w.callWith(t, http.MethodPost, c.path, admin, c.body, "Idempotency-Key", fmt.Sprint(i))
			}
			first := send()
			var made struct{ ID string }
			if err := json.Unmarshal(first.body, &made); err != nil || first.status != 201 || uuid.MustParse(made.ID).Version() != 7 {
				t.Fatalf("%s: %d %s", c.path, first.status, first.body)
			}
			for range 2 {
				w.loses(t)
				got := send()
				var is struct{ ID, Code string }
				if err := json.Unmarshal(got.body, &is); err != nil || got.status != c.again ||
					c.again == 201 && is.ID != made.ID || c.again == 409 && is.Code != "answer_not_kept" {
					t.Errorf("again %s: %d %s, first %s", c.path, got.status, got.body, first.body)
				}
			}
			if got := w.call(t, http.MethodGet, c.path, admin, ""); c.again == 409 && c.path != "/api/v1/webhook-sources" &&
				strings.Count(string(got.body), `"id"`) != 1 {
				t.Errorf("%s has %s", c.path, got.body)
			}
			if c.path == agentTasks {
				w.Skew.Advance(25 * time.Hour)
				if got := send(); got.status != 201 || strings.Contains(string(got.body), made.ID) {
					t.Errorf("a day later %s answers %d %s", c.path, got.status, got.body)
				}
			}
		}
	})
}

// A request whose commit may have happened answers 503. The repeated request creates under the same id.
func TestAFailedRequestIsNotDoneAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var ids []string
		d := w.serving(t, deskOf{}, func(rw http.ResponseWriter, r *http.Request, _ int64) {
			ids = append(ids, api.ClaimedID(r.Context()))
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		for range 3 {
			check(t, is(d.post(t, "k", "/things", `{}`), http.StatusServiceUnavailable, ""))
		}
		check(t, is(d.post(t, "k", "/things", `{"other":1}`), http.StatusServiceUnavailable, ""))
		if len(ids) != 4 || len(slices.Compact(ids[:3])) != 1 || ids[0] == ids[3] {
			t.Errorf("the ids are %q", ids)
		}
	})
}

// What else a repeated request would do twice is done once too.
func TestACommittedEffectIsNotRepeated(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type named struct{ ID string }
		var in, speaker, work, listener named
		var talk struct{ TraceID string }
		w.must(t, 201, http.MethodPost, "/api/v1/webhook-sources", `{"name":"hook","kind":"github"}`, nil)
		w.must(t, 201, http.MethodPost, "/api/v1/webhook-endpoints", `{"url":"https://once.example/","events":["*"]}`, &listener)
		w.must(t, 201, http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &in)
		w.must(t, 201, http.MethodPost, "/api/v1/executions", `{"agent":"a"}`, &speaker)
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"work"}`, &work)
		w.beginAttempt(t, work.ID)
		w.must(t, 200, http.MethodPost, operatePath, `{"message":"Hello."}`, &talk)
		from, to := w.budget(t, "agent", "a", 1000), w.budget(t, "task", work.ID, 1000)
		for i, c := range []struct {
			path, body    string
			status, again int
		}{
			{"/api/v1/threads/" + in.ID + "/messages", `{"body":"once"}`, 201, 201},
			{"/api/v1/threads/" + in.ID + "/send", `{"executionId":"` + speaker.ID + `","body":"once"}`, 200, 200},
			{operatePath, `{"message":"once"}`, 200, 200},
			{operatePath, `{"message":"once","stream":true}`, 200, 409},
			{"/api/v1/skills/look/run", `{}`, 200, 409},
			{"/api/v1/traces/" + talk.TraceID + "/fork", `{"step":1}`, 202, 202},
			{"/api/v1/budgets/reallocate", `{"from":"` + from.ID + `","to":"` + to.ID + `","amount":600}`, 200, 200},
			{agentTasks + "/" + work.ID + "/usage", `{"inputTokens":10,"outputTokens":1,"model":"demo"}`, 200, 200},
			{"/api/v1/deliveries/" + w.receive(t, w.Workspace, "hook", "once") + "/redeliver", `{"anew":true}`, 200, 200},
			{"/api/v1/webhook-sources/hook/rotate-secret", `{}`, 200, 409},
			{"/api/v1/webhook-sources/hook/rotate-secret", `{"secret":"it is its secret"}`, 200, 200},
			{"/api/v1/webhook-endpoints/" + listener.ID + "/rotate-secret", `{}`, 200, 409},
			{"/api/v1/coordinator/commands", `{"command":"reassign_task","taskId":"` + work.ID + `"}`, 202, 202},
		} {
			send := func(status int) string {
				t.Helper()
				got := w.callWith(t, http.MethodPost, c.path, admin, c.body, "Idempotency-Key", fmt.Sprint(i))
				var is struct {
					ID, MessageID, ExecutionID string
					To                         struct{ Allocated int64 }
					Budgets                    []struct{ Consumed int64 }
				}
				_ = json.Unmarshal(got.body, &is) // a stream is none
				if is.ExecutionID == "" {
					is.ExecutionID = got.header.Get("X-Execution-Id")
				}
				if got.status != status {
					t.Errorf("%s: %d %s, want %d", c.path, got.status, got.body, status)
				}
				return fmt.Sprint(is)
			}
			first := send(c.status)
			for range 2 {
				w.loses(t)
				if again := send(c.again); again != first {
					t.Errorf("again %s tells %s, first %s", c.path, again, first)
				}
			}
		}
		times := map[string]int{}
		for _, name := range w.changes(t) {
			times[name]++
		}
		for name, n := range map[string]int{
			"budget.reallocate": 1, "delivery.redeliver": 1, "webhook_source.rotate_secret": 2, "webhook_endpoint.rotate_secret": 1,
		} {
			if times[name] != n {
				t.Errorf("%s was done %d times", name, times[name])
			}
		}
	})
}

// A process dies after it has acquired a lane, and before it stored the hold's token. The repeated request gets the
// same hold, and not another one's.
func TestACommittedHoldIsGivenAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		acquire := func(key string) result {
			const body = `{"holder":"once","ttlSeconds":3600}`
			return w.callWith(t, http.MethodPost, lanes("build", "acquire"), admin, body, "Idempotency-Key", key)
		}
		var holds [3]struct {
			Token string
			Fence int64
		}
		for i := range holds {
			got := acquire("k")
			if err := json.Unmarshal(got.body, &holds[i]); err != nil || got.status != 200 || uuid.Validate(holds[i].Token) != nil {
				t.Fatalf("%d %s", got.status, got.body)
			}
			w.loses(t)
		}
		if holds[1] != holds[0] || holds[2] != holds[0] {
			t.Errorf("the holds are %+v", holds)
		}
		if other := acquire("other"); other.status != 409 {
			t.Errorf("another request: %d %s", other.status, other.body)
		}
		w.must(t, 200, http.MethodPost, lanes("build", "release"), `{"token":"`+holds[0].Token+`"}`, nil)
	})
}

// newClaims returns a world with two tasks and an agent that may claim them.
func newClaims(t *testing.T, e dbtest.Env) *world {
	t.Helper()
	w := newWorld(t, e, func(d *api.Deps) { d.Claim = d.Coordinator.Claim })
	w.must(t, 201, http.MethodPut, agentsPath+"/"+working, `{"name":"scout","spawner":"pull","maxConcurrentTasks":3}`, nil)
	for range 2 {
		w.must(t, 201, http.MethodPost, agentTasks, `{"title":"work"}`, nil)
	}
	return w
}

// claims has the agent of [newClaims] claim a task, under the same key each time.
func (w *world) claims(t *testing.T) result {
	t.Helper()
	w.must(t, 200, http.MethodPost, agentsPath+"/"+working+"/heartbeat", `{"status":"WORKING"}`, nil)
	return w.callWith(t, http.MethodPost, agentsPath+"/"+working+"/claim", admin, `{}`, "Idempotency-Key", "k")
}

// A process dies after an agent has taken a task, and before it was told. The repeated claim gets the same task for
// as long as that runs, and takes no second one.
func TestACommittedClaimTakesOneTask(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newClaims(t, e)
		claims := func() (is taskTold) {
			t.Helper()
			got := w.claims(t)
			if err := json.Unmarshal(got.body, &is); err != nil || got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
			w.loses(t)
			return is
		}
		first := claims()
		if again := claims(); again.ID != first.ID || again.Attempt != first.Attempt || again.Status != "RUNNING" {
			t.Errorf("again %+v, first %+v", again, first)
		}
		w.must(t, 200, http.MethodPost, agentTasks+"/"+first.ID+"/complete", `{}`, nil)
		if next := claims(); next.ID == first.ID || next.Attempt != 1 {
			t.Errorf("then %+v", next)
		}
	})
}

// TestARepeatedClaimGetsItsTask: the response of a claim is not stored, because the task's input may be secret. The
// agent whose response was lost gets its task while that runs, and no second one.
func TestARepeatedClaimGetsItsTask(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		w := newClaims(t, e)
		first, again := w.claims(t), w.claims(t)
		var told [2]taskTold
		for i, got := range []result{first, again} {
			if err := json.Unmarshal(got.body, &told[i]); err != nil || got.status != 200 {
				t.Fatalf("%d %s", got.status, got.body)
			}
		}
		if told[1].ID != told[0].ID || told[1].Attempt != 1 ||
			again.header.Get("Idempotency-Replayed") != "true" || first.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("again %+v, %v, first %+v", told[1], again.header, told[0])
		}
		w.must(t, 200, http.MethodPost, agentTasks+"/"+told[0].ID+"/complete", `{}`, nil)
		if got := w.claims(t); got.status != 409 || !strings.Contains(string(got.body), `"code":"answer_not_kept"`) {
			t.Errorf("when it has ended: %d %s", got.status, got.body)
		}
	})
}

// A repeated request that takes its key over while the turn is under way does not begin it again. It gets the answer
// once there is one.
func TestATurnUnderWayIsNotBegunAgain(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := slow{make(chan struct{}), make(chan struct{})} // it can be asked once
		w.Operate.Reason.Model = m
		send := func() result {
			return w.callWith(t, http.MethodPost, operatePath, admin, `{"message":"once","multitask":"interrupt"}`, "Idempotency-Key", "k")
		}
		first := make(chan result, 1)
		go func() { first <- send() }()
		<-m.written
		var names struct{ ExecutionID string }
		if got := send(); got.status != 409 || json.Unmarshal(got.body, &names) != nil || names.ExecutionID == "" {
			t.Errorf("its process may have died: %d %s", got.status, got.body)
		}
		if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).LoseAnswers); err != nil {
			t.Fatal(err)
		}
		if got := send(); got.status != 409 || !strings.Contains(string(got.body), `"code":"in_progress"`) || got.retryAfter() == 0 {
			t.Errorf("under way: %d %s", got.status, got.body)
		}
		close(m.goOn)
		var one, another turned
		if err := errors.Join(json.Unmarshal((<-first).body, &one), json.Unmarshal(send().body, &another)); err != nil ||
			one.Answer != "One two." || another.Answer != one.Answer || another.ExecutionID != one.ExecutionID ||
			names.ExecutionID != one.ExecutionID {
			t.Errorf("first %+v, again %+v, %v", one, another, err)
		}
	})
}

// The process of a request died, and another one has finished its turn. The repeated request gets the answer at once,
// although the key is held for as long as a turn may take.
func TestATurnThatEndedAnswersAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for path, want := range map[string]int{operatePath: 200, "/api/v1/skills/look/run": 409} {
			body := map[string]string{operatePath: `{"message":"once"}`}[path]
			var names [2]struct{ ExecutionID, Code string }
			for i := range names {
				got := w.callWith(t, http.MethodPost, path, admin, cmp.Or(body, "{}"), "Idempotency-Key", "k")
				if err := json.Unmarshal(got.body, &names[i]); err != nil || got.status != []int{200, want}[i] {
					t.Errorf("%s: %d %s", path, got.status, got.body)
				}
				if replayed := got.header.Get("Idempotency-Replayed"); (replayed == "true") != (i == 1 && want == 200) {
					t.Errorf("%s: answer %d is replayed: %q", path, i, replayed)
				}
				for _, q := range []db.Query{idempotencyQueries(t).LoseAnswers, idempotencyQueries(t).HoldKeys} {
					if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, q); err != nil {
						t.Fatal(err)
					}
				}
			}
			if names[0].ExecutionID == "" || names[1].ExecutionID != names[0].ExecutionID || names[1].Code == "in_progress" {
				t.Errorf("%s: %+v", path, names)
			}
		}
	})
}

// A process that died before it began its turn holds the key as long as a turn may take. A repeated request begins the
// turn as soon as a living process would have begun it.
func TestATurnThatNeverBeganIsBegun(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		send := func() result {
			return w.callWith(t, http.MethodPost, operatePath, admin, `{"message":"once","multitask":"reject"}`, "Idempotency-Key", "k")
		}
		held, err := w.Deps.Lanes.Acquire(t.Context(), lane.Request{Workspace: w.Workspace, Lane: "operate", Holder: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if got := send(); got.status != 409 || strings.Contains(string(got.body), "in_progress") {
			t.Errorf("behind another turn: %d %s", got.status, got.body)
		}
		if err := w.Deps.Lanes.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).ClaimKeys); err != nil {
			t.Fatal(err)
		}
		if got := send(); got.status != 409 || !strings.Contains(string(got.body), `"code":"in_progress"`) {
			t.Errorf("at once: %d %s", got.status, got.body)
		}
		w.Skew.Advance(16 * time.Second)
		var names [2]struct{ ExecutionID string }
		for i := range names {
			if got := send(); got.status != 200 || json.Unmarshal(got.body, &names[i]) != nil {
				t.Errorf("later: %d %s", got.status, got.body)
			}
		}
		if names[0].ExecutionID == "" || names[0] != names[1] {
			t.Errorf("it is begun as %v", names)
		}
	})
}

// A call by hand whose process died before it began is made by a repeated request as soon as a living process would have
// made it, and once.
func TestACallByHandThatNeverBeganIsMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(t, 201, http.MethodPost, automationsPath, `{"name":"a","skill":"look","schedule":{"cron":"@daily"}}`, nil)
		offered := w.Operate.Skills
		for _, path := range []string{"/api/v1/skills/look/run", automationsPath + "/a/run"} {
			send := func() result {
				return w.callWith(t, http.MethodPost, path, admin, `{}`, "Idempotency-Key", "k")
			}
			w.Operate.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return nil, errors.New("down") }
			if got := send(); got.status != 500 {
				t.Errorf("%s of a process that dies: %d %s", path, got.status, got.body)
			}
			w.Operate.Skills = offered
			if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).ClaimKeys); err != nil {
				t.Fatal(err)
			}
			if got := send(); got.status != 409 || !strings.Contains(string(got.body), `"code":"in_progress"`) {
				t.Errorf("%s at once: %d %s", path, got.status, got.body)
			}
			w.Skew.Advance(16 * time.Second)
			var names [2]struct{ ExecutionID string }
			for i, want := range []int{200, 409} {
				if got := send(); got.status != want || json.Unmarshal(got.body, &names[i]) != nil {
					t.Errorf("%s later: %d %s, want %d", path, got.status, got.body, want)
				}
			}
			if names[0].ExecutionID == "" || names[0] != names[1] {
				t.Errorf("%s is done as %v", path, names)
			}
		}
	})
}

// A key that a failed request has freed serves another request too.
func TestAFreedKeyServesAnotherRequest(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := w.serving(t, deskOf{}, func(rw http.ResponseWriter, r *http.Request, before int64) {
			if before == 0 {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			creating(rw, r, before)
		})
		check(t, is(d.post(t, "k", "/things", `{}`), http.StatusServiceUnavailable, ""))
		check(t, is(d.post(t, "k", "/things", `{"other":1}`), http.StatusCreated, ""))
		check(t, is(d.post(t, "k", "/things", `{}`), http.StatusUnprocessableEntity, "key_reused"))
	})
}

// If a process dies, its key stays claimed until the claim expires. A request that was only slow
// does not overwrite the response of the request that took its key over.
func TestATakenOverRequest(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		begun, release := make(chan struct{}), make(chan struct{})
		d := w.serving(t, deskOf{}, func(rw http.ResponseWriter, r *http.Request, before int64) {
			if before == 0 {
				close(begun)
				<-release
			}
			creating(rw, r, before)
		})
		var wg sync.WaitGroup
		wg.Go(func() { check(t, is(d.post(t, "k", "/things", `{}`), http.StatusCreated, "")) })
		<-begun
		w.Skew.Advance(5 * time.Second)
		check(t, is(d.post(t, "k", "/things", `{}`), http.StatusConflict, "in_progress"))
		w.Skew.Advance(11 * time.Second)
		check(t, is(d.post(t, "k", "/things", `{"other":1}`), http.StatusUnprocessableEntity, "key_reused"))
		second := d.post(t, "k", "/things", `{}`)
		if second.Body.String() != `{"n":1}` || second.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("taken over: %d %s", second.Code, second.Body)
		}
		close(release)
		wg.Wait()
		if again := d.post(t, "k", "/things", `{}`); again.Body.String() != `{"n":1}` || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("afterwards: %d %s", again.Code, again.Body)
		}
		if warned := w.logs.lines(t, "a request took longer than its idempotency key was claimed for, and was done by another too"); len(warned) != 1 {
			t.Errorf("%d warnings", len(warned))
		}
	})
}

func TestAPatientRouteIsTakenOverLater(t *testing.T) {
	w := onOne(t)
	begun, release := make(chan struct{}), make(chan struct{})
	d := w.serving(t, deskOf{within: 5 * time.Minute}, func(rw http.ResponseWriter, r *http.Request, before int64) {
		close(begun)
		<-release
		creating(rw, r, before)
	})
	var wg sync.WaitGroup
	wg.Go(func() { d.post(t, "k", "/things", `{}`) })
	<-begun
	w.Skew.Advance(4 * time.Minute)
	check(t, is(d.post(t, "k", "/things", `{}`), http.StatusConflict, "in_progress"))
	close(release)
	wg.Wait()
}

// TestABulkRequestIsTakenOverWithinAMinute: what a process that has died has not done is done by the repeated request.
func TestABulkRequestIsTakenOverWithinAMinute(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		asks := func(when string, status int, code string) {
			t.Helper()
			got := w.callWith(t, http.MethodPost, agentTasks+"/bulk", admin,
				`{"filter":{"taskType":"none"},"action":"cancel","expectedCount":0}`, "Idempotency-Key", "k")
			if got.status != status || !strings.Contains(string(got.body), code) {
				t.Errorf("%s: %d %s", when, got.status, got.body)
			}
		}
		asks("first", 202, `"matched":0`)
		if _, err := w.Deps.DB.Exec(t.Context(), w.Workspace, idempotencyQueries(t).DieKeys); err != nil {
			t.Fatal(err)
		}
		asks("at once", 409, "in_progress")
		w.Skew.Advance(time.Minute)
		asks("a minute later", 202, `"matched":0`)
	})
}

// A client may retry a request that failed with 5xx or Retry-After. Any other refusal is stored and
// repeated.
func TestWhichAnswersAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for status, kept := range map[int]bool{
			200: true, 202: true, 204: true, 400: true, 404: true, 409: true, 422: true, 429: false, 500: false, 503: false,
		} {
			d := w.serving(t, deskOf{route: fmt.Sprint(status)}, func(rw http.ResponseWriter, _ *http.Request, _ int64) {
				if status == http.StatusTooManyRequests {
					rw.Header().Set("Retry-After", "1")
				}
				rw.WriteHeader(status)
			})
			for range 2 {
				check(t, is(d.post(t, "k", "/things", `{}`), status, ""))
			}
			if once := d.done.Load() == 1; once != kept {
				t.Errorf("%d: done %d times", status, d.done.Load())
			}
		}
		d := w.serving(t, deskOf{route: "silent"}, func(http.ResponseWriter, *http.Request, int64) {})
		for range 2 {
			check(t, is(d.post(t, "k", "/things", `{}`), http.StatusOK, ""))
		}
		if d.done.Load() != 1 {
			t.Error("who says nothing says 200")
		}
		d = w.serving(t, deskOf{route: "busy"}, func(rw http.ResponseWriter, _ *http.Request, before int64) {
			if before == 0 { // like a lane that is held
				rw.Header().Set("Retry-After", "3")
				rw.WriteHeader(http.StatusConflict)
			}
		})
		for _, status := range []int{http.StatusConflict, http.StatusOK, http.StatusOK} {
			check(t, is(d.post(t, "k", "/things", `{}`), status, ""))
		}
		if d.done.Load() != 2 {
			t.Errorf("busy, then free: done %d times", d.done.Load())
		}
		d = w.serving(t, deskOf{route: "panic"}, func(rw http.ResponseWriter, _ *http.Request, before int64) {
			rw.WriteHeader(http.StatusOK)
			if before == 0 {
				panic(http.ErrAbortHandler)
			}
		})
		func() {
			defer func() {
				if recover() != any(http.ErrAbortHandler) {
					t.Error("it does not panic any more")
				}
			}()
			d.post(t, "k", "/things", `{}`)
		}()
		check(t, is(d.post(t, "k", "/things", `{}`), http.StatusOK, ""))
	})
}

// A request whose response cannot be stored is not executed again either.
func TestAnswersThatAreNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		large := strings.Repeat("x", 100<<10)
		for name, c := range map[string]struct {
			deskOf
			work func(http.ResponseWriter, *http.Request, int64)
			want string
		}{
			"sensitive": {deskOf{sensitive: true}, func(rw http.ResponseWriter, _ *http.Request, _ int64) { fmt.Fprint(rw, "CANARY") }, "CANARY"},
			"large": {deskOf{}, func(rw http.ResponseWriter, _ *http.Request, _ int64) {
				for range 3 {
					fmt.Fprint(rw, large)
				}
			}, large + large + large},
			"stream": {deskOf{}, func(rw http.ResponseWriter, _ *http.Request, _ int64) {
				fmt.Fprint(rw, "a")
				if rec := recorderOf(rw); rec.Body.Len() > 0 {
					t.Error("it was not held back")
				}
				check(t, http.NewResponseController(rw).Flush())
				if rec := recorderOf(rw); rec.Body.String() != "a" || !rec.Flushed {
					t.Error("it was held back")
				}
				fmt.Fprint(rw, "b")
			}, "ab"},
		} {
			c.route = name
			d := w.serving(t, c.deskOf, c.work)
			if rec := d.post(t, "k", "/things", `{}`); rec.Code != http.StatusOK || rec.Body.String() != c.want {
				t.Errorf("%s: %d, %d bytes", name, rec.Code, rec.Body.Len())
			}
			check(t, is(d.post(t, "k", "/things", `{}`), http.StatusConflict, "answer_not_kept"))
			if n := d.done.Load(); n != 1 {
				t.Errorf("%s: done %d times", name, n)
			}
		}
		d := w.serving(t, deskOf{route: "refused", sensitive: true}, func(rw http.ResponseWriter, _ *http.Request, _ int64) { rw.WriteHeader(http.StatusNotFound) })
		for range 2 {
			check(t, is(d.post(t, "k", "/things", `{}`), http.StatusNotFound, ""))
		}
		if rows := w.keptRows(t); strings.Contains(rows, "CANARY") || len(rows) == 0 {
			t.Errorf("kept: %s", rows)
		}
	})
}

// recorderOf returns the innermost writer.
func recorderOf(w http.ResponseWriter) *httptest.ResponseRecorder {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w.(*httptest.ResponseRecorder)
		}
		w = u.Unwrap()
	}
}

func idempotencyQueries(t testing.TB) (q struct{ KeptRows, CountKeys, LoseAnswers, HoldKeys, ClaimKeys, DieKeys db.Query }) {
	t.Helper()
	dbtest.Load(t, "testdata/idempotency", &q)
	return q
}

// keptRows returns the stored responses.
func (w *world) keptRows(t testing.TB) (all string) {
	t.Helper()
	err := w.Deps.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
		var status int
		var body []byte
		err := scan(&status, &body)
		all += fmt.Sprintf("%d %s\n", status, body)
		return err
	}, idempotencyQueries(t).KeptRows)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKeysLastADay(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		d := w.serving(t, deskOf{}, creating)
		d.post(t, "k", "/things", `{}`)
		w.Skew.Advance(24*time.Hour - time.Minute)
		if rec := d.post(t, "k", "/things", `{}`); rec.Header().Get("Idempotency-Replayed") != "true" {
			t.Error("forgotten too soon")
		}
		w.Skew.Advance(2 * time.Minute)
		if rec := d.post(t, "k", "/things", `{"another":1}`); rec.Body.String() != `{"n":1}` {
			t.Errorf("a day later: %d %s", rec.Code, rec.Body)
		}
		d.post(t, "old", "/things", `{}`)
		purge, err := retain.New(w.Deps.DB)
		if err != nil {
			t.Fatal(err)
		}
		keep := retain.Retention{Activity: 90 * 24 * time.Hour, Events: 7 * 24 * time.Hour, Outbox: 30 * 24 * time.Hour}
		for _, due := range []bool{false, true} {
			d.post(t, "new", "/things", `{}`)
			var b db.Batch
			asks, err := quiet.New()
			if err != nil {
				t.Fatal(err)
			}
			oldest := &asks.Look(&b, quiet.Question{}).Oldest
			if err := w.Deps.DB.Read(t.Context(), w.Workspace, &b); err != nil || oldest.Due(keep) != due {
				t.Errorf("a purge is due: %v, %v", !due, err)
			}
			if !due {
				w.Skew.Advance(26 * time.Hour)
			}
		}
		var left int
		_, err = purge.Purge(t.Context(), w.Workspace, keep)
		if err := errors.Join(err, w.Deps.DB.One(t.Context(), w.Workspace, []any{&left}, idempotencyQueries(t).CountKeys)); err != nil || left != 1 {
			t.Errorf("%d keys are left, want the new one: %v", left, err)
		}
	})
}

func TestKeysThatAreNone(t *testing.T) {
	w := onOne(t)
	d := w.serving(t, deskOf{}, creating)
	for _, values := range [][]string{{""}, {" "}, {"a b"}, {"ä"}, {"a\x7f"}, {strings.Repeat("k", 256)}, {"a", "a"}, {"a", "b"}, {"a", ""}} {
		r := request(http.MethodPost, "/things", "", `{}`)
		r.Header["Idempotency-Key"] = values
		rec := d.send(t, r)
		status, code := http.StatusUnprocessableEntity, "invalid"
		if len(values) > 1 {
			status, code = http.StatusBadRequest, "malformed"
		}
		check(t, is(rec, status, code))
		if !strings.Contains(rec.Body.String(), `"location":"header.Idempotency-Key"`) {
			t.Errorf("%q: %s", values, rec.Body)
		}
	}
	if d.done.Load() > 0 {
		t.Error("something was done")
	}
	check(t, is(d.post(t, strings.Repeat("~", 255), "/things", `{}`), http.StatusCreated, ""))
}

// If the database cannot tell the state of a key, the request is not executed.
func TestKeysWithoutADatabase(t *testing.T) {
	w := onOne(t)
	d := w.serving(t, deskOf{}, creating)
	r := request(http.MethodPost, "/things", "", `{}`)
	r.Header.Set("Idempotency-Key", "k")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check(t, is(d.send(t, r.WithContext(ctx)), http.StatusServiceUnavailable, "timeout"))
	if d.done.Load() > 0 {
		t.Error("it was done")
	}
}
