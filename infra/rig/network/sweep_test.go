package network_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// fate is what the network does to a request. then is what it does to all following traffic until
// the invocation has ended.
type fate struct {
	name        string
	fault, then proxy.Fault
}

var fates = []fate{
	{"the request is lost", proxy.Fault{Kind: proxy.Cut}, proxy.Fault{}},
	{"the answer is lost", proxy.Fault{Kind: proxy.CutAnswer}, proxy.Fault{}},
	{"half of the answer comes", proxy.Fault{Kind: proxy.HalfAnswer}, proxy.Fault{}},
	{"the request is swallowed", proxy.Fault{Kind: proxy.Swallow}, proxy.Fault{}},
	{"the answer is swallowed", proxy.Fault{Kind: proxy.SwallowAnswers}, proxy.Fault{}},
	{"all is late", proxy.Fault{Kind: proxy.Delay, By: 20 * time.Millisecond}, proxy.Fault{Kind: proxy.Delay, By: 20 * time.Millisecond}},
	{"the answer is lost, and all that follows", proxy.Fault{Kind: proxy.CutAnswer}, proxy.Fault{Kind: proxy.Cut}},
	{"the answer is swallowed, and all that follows", proxy.Fault{Kind: proxy.SwallowAnswers}, proxy.Fault{Kind: proxy.Swallow}},
}

// lasts reports whether all traffic is lost until the invocation has ended.
func (f fate) lasts() bool { return f.then.Kind == proxy.Cut || f.then.Kind == proxy.Swallow }

// strike is one fate of one request of a work.
type strike struct {
	*work
	peer string
	n    int    // number of the request, from 1
	text string // of the request
	fate
}

func (s strike) String() string {
	return fmt.Sprintf("%s/%s/%d/%s", s.work.name, s.peer, s.n, s.fate.name)
}

// points are the requests whose responses matter most. A text in the request identifies each of
// them.
var points = []struct{ name, peer, text string }{
	{"a lane is acquired", database, "lk_lane_acquire"},
	{"a lane is released", database, "lk_lane_release"},
	{"an execution begins", database, "INSERT INTO executions"},
	{"an execution ends", database, "UPDATE executions SET status = $3, result = $4"},
	{"the journal gets an entry", database, "INSERT INTO execution_steps"},
	{"a budget is reserved", database, "INSERT INTO usage_reservations"},
	{"a budget is settled", database, "UPDATE usage_reservations SET settled_at"},
	{"a commit by itself", database, "\x00COMMIT\x00"},
	{"the outbox is claimed", database, "o.attempts >= o.max_attempts"},
	{"a row of the outbox ends", database, "lk_outbox_end"},
	{"an approved call starts", database, "UPDATE approvals SET started_at"},
	{"an approved call has a result", database, "UPDATE approvals SET status = 'executed'"},
	{"the model is asked", model, "POST"},
	{"a receiver is called", receiver, "POST"},
}

// R35: each request of a beat, a turn, a delivery and a task of the built-in worker, to the database, the model and a receiver,
// meets each fate, one at a time. At the small figure each point meets one fate on Postgres, and
// some do on the other engines. No network is between a function and SQLite.
func TestEveryRequestOfAWork(t *testing.T) {
	seed := promise.Seed(t)
	for _, c := range []struct {
		engine, to string
		wide       int // databases at the small figure
		few        int // points at the small figure
	}{
		{dbtest.OnPostgres, "Postgres, the model and a receiver", 4, len(points)},
		{dbtest.OnPgBouncer, "PgBouncer, the model and a receiver", 2, 3},
		{dbtest.OnSQLite, "the model and a receiver, on SQLite", 1, 2},
	} {
		t.Run(c.engine, func(t *testing.T) {
			proof := promise.Of(t, "R35", "each request of a beat, a turn, a delivery and a task, to "+c.to+": lost, swallowed, late, its answer cut",
				"each call ends within its limit and 5 s; lost 0, twice 0, nothing held or open")
			random := rand.New(rand.NewPCG(seed, 35))
			s := newSweep(t, c.engine, promise.Figure(c.wide, 8))
			all := s.learn(t)
			if !promise.Full() {
				all = some(t, random, all, c.few)
			}
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			s.sweep(t, all)
			proof.Tell("%s", s)
		})
	}
}

// some chooses one of the short fates for each of few points, in any work that has a request there.
// It also chooses fates after which the database is silent: for each work if all points are chosen,
// otherwise for one.
func some(t *testing.T, random *rand.Rand, all []strike, few int) (chosen []strike) {
	t.Helper()
	for _, i := range random.Perm(len(points)) {
		p := points[i]
		var fit []strike
		asked := false
		for _, s := range all {
			asked = asked || s.peer == p.peer
			if s.peer == p.peer && strings.Contains(s.text, p.text) && s.then.Kind != proxy.Swallow {
				fit = append(fit, s)
			}
		}
		switch {
		case !asked || len(chosen) == few:
		case len(fit) == 0:
			t.Fatalf("no request of any work is one in which %s", p.name)
		default:
			chosen = append(chosen, fit[random.IntN(len(fit))])
		}
	}
	for _, i := range random.Perm(len(works)) {
		silent := slices.DeleteFunc(slices.Clone(all), func(s strike) bool {
			return s.work != works[i] || s.peer != database || s.then.Kind != proxy.Swallow
		})
		if len(silent) > 0 {
			chosen = append(chosen, silent[random.IntN(len(silent))])
		}
		if few < len(points) {
			break
		}
	}
	return chosen
}

// sweep is a set of databases on which strikes are tried concurrently.
type sweep struct {
	bases []*base

	mu      sync.Mutex
	tried   int
	met     int                      // strikes whose request was made
	slowest map[string]time.Duration // by name of the invocation
	waited  time.Duration            // longest time until all was done, on the database's clock
}

func newSweep(t *testing.T, engine string, wide int) *sweep {
	t.Helper()
	s := &sweep{slowest: map[string]time.Duration{}}
	key, world := filepath.Join(t.TempDir(), "key"), outside.Start()
	t.Cleanup(world.Close)
	for range wide {
		s.bases = append(s.bases, newBase(t, engine, key, world))
	}
	return s
}

func (s *sweep) String() string {
	var said []string
	for what, took := range s.slowest {
		said = append(said, fmt.Sprintf("%s %s", what, took.Round(10*time.Millisecond)))
	}
	slices.Sort(said)
	return fmt.Sprintf("%d strikes, %d met; the slowest: %s; all done within %s of the database's time", s.tried, s.met, strings.Join(said, ", "), s.waited)
}

// learn runs each work without faults and returns all strikes on its requests.
func (s *sweep) learn(t *testing.T) (all []strike) {
	t.Helper()
	for _, k := range works {
		w := s.bases[0].world(t)
		k.seed(t, w)
		asked := map[string]*requests{}
		for peer := range w.proxies {
			asked[peer] = w.watch(peer, 0, fate{})
		}
		check(t, w.invoke("", func(ctx context.Context) error { return k.begin(ctx, w) }))
		w.working.Wait()
		for _, peer := range peers {
			if asked[peer] == nil {
				continue
			}
			texts := asked[peer].all()
			for n, text := range texts {
				for _, f := range fates {
					if f.lasts() && peer != database && k != sending {
						// A caller that waits is told that a model or a receiver is down; a
						// delivery is sent later.
						continue
					}
					if k == tasking && peer == model && n == 0 && (f.fault.Kind == proxy.Swallow || f.fault.Kind == proxy.SwallowAnswers) {
						// An invocation that ends without a step puts its task into quarantine. A try
						// of a model may be silent for 90 s, which are a small part of a real
						// invocation, and more than all of one here.
						continue
					}
					all = append(all, strike{k, peer, n + 1, text, f})
				}
			}
		}
		s.finish(t, w, strike{work: k})
	}
	return all
}

// requests are the requests to one peer, in order.
type requests struct {
	mu    sync.Mutex
	texts []string
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.texts)
}

// watch records all further requests to a peer and applies a fate to the n-th.
func (w *world) watch(peer string, n int, f fate) *requests {
	r := &requests{}
	w.proxies[peer].OnRequest(func(data []byte) proxy.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.texts = append(r.texts, string(data))
		switch {
		case n == 0 || len(r.texts) < n:
			return proxy.Fault{}
		case len(r.texts) == n:
			return f.fault
		}
		return f.then
	})
	return r
}

// heal removes all faults.
func (w *world) heal() {
	for _, p := range w.proxies {
		p.OnRequest(nil)
		p.Set(proxy.Fault{})
	}
}

// sweep tries strikes, one at a time on each database.
func (s *sweep) sweep(t *testing.T, all []strike) {
	t.Helper()
	next := make(chan strike, len(all))
	for _, k := range all {
		next <- k
	}
	close(next)
	var working sync.WaitGroup
	for _, b := range s.bases {
		working.Go(func() {
			for k := range next {
				t.Run(k.String(), func(t *testing.T) { s.try(t, b, k) })
			}
		})
	}
	working.Wait()
}

func (s *sweep) try(t *testing.T, b *base, k strike) {
	w := b.world(t)
	w.streams, w.looks = k.n%2 == 0, k.lasts()
	k.seed(t, w)
	asked := w.watch(k.peer, k.n, k.fate)
	err := w.invoke(k.work.name, func(ctx context.Context) error { return k.begin(ctx, w) })
	w.working.Wait()
	w.heal()
	s.finish(t, w, k)
	came := len(asked.all())
	if t.Failed() {
		t.Logf("%s: request %d of %d, %.300q, came to %v\n%s", k, k.n, came, k.text, err, w.log)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	if came >= k.n {
		s.met++
	}
}

// step is the time that passes on the database's clock between two polls.
const step = 30 * time.Second

// finish lets a disturbed work end over a healthy network, and checks that it had its effects once
// and left nothing behind.
func (s *sweep) finish(t *testing.T, w *world, k strike) {
	t.Helper()
	waited := time.Duration(0)
	w.settled(t, "transactions that the network has left open", `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`)
	_ = w.invoke("tending", func(ctx context.Context) error { w.tend(ctx); return nil })
	w.working.Wait()
	for _, held := range must(w.direct.Lanes.List(t.Context(), w.ws, 100))(t) {
		t.Errorf("lane %s is held by %s for %s", held.Lane, held.Holder, held.Remaining)
	}
	for {
		_ = w.invoke(k.work.name, func(ctx context.Context) error { return k.begin(ctx, w) })
		_ = w.invoke("tending", func(ctx context.Context) error { w.tend(ctx); return nil })
		w.working.Wait()
		left := w.left(t, k.work)
		if left == "" {
			break
		}
		if waited += step; waited > 20*time.Minute {
			t.Errorf("after %s there is left: %s", waited, left)
			return
		}
		w.skew.Advance(step)
	}
	for _, what := range k.effects {
		if n := w.outside.Effects(w.key(what)); n != 1 {
			t.Errorf("%s had %d effects", what, n)
		}
	}
	k.stands(t, w)
	for _, held := range must(w.direct.Lanes.List(t.Context(), w.ws, 100))(t) {
		t.Errorf("at last, lane %s is held by %s for %s", held.Lane, held.Holder, held.Remaining)
	}
	if twice := w.texts(t, `SELECT call_id FROM execution_steps WHERE workspace_id = $1 AND kind = 'result' GROUP BY execution_id, call_id HAVING count(*) > 1`, w.ws); len(twice) > 0 {
		t.Errorf("calls with two results: %v", twice)
	}
	closed := make(chan error, 1)
	go func() { closed <- w.db.Close() }()
	select {
	case err := <-closed:
		check(t, err)
	case <-time.After(time.Minute):
		t.Error("a connection was left checked out")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = max(s.waited, waited)
	for what, took := range w.slowest {
		if what != "" {
			s.slowest[what] = max(s.slowest[what], took)
		}
		if took > limit+grace {
			t.Errorf("%s took %s, and its limit is %s", cmp.Or(what, k.work.name), took.Round(time.Millisecond), limit)
		}
	}
}

// await waits until a query counts no more rows, for at most a minute: the server must end the
// transactions of a silent peer by then.
func (w *world) await(t *testing.T, what, sql string, args ...any) {
	t.Helper()
	for until := time.Now().Add(time.Minute); w.count(t, sql, args...) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("there are still %s", what)
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// left describes the work that remains.
func (w *world) left(t *testing.T, k *work) string {
	t.Helper()
	var left []string
	for _, what := range k.effects {
		if w.outside.Effects(w.key(what)) == 0 {
			left = append(left, what)
		}
	}
	left = append(left, w.texts(t, `SELECT 'execution ' || status || ' of ' || coalesce(subject, '') FROM executions WHERE workspace_id = $1 AND status IN ('running', 'waiting', 'parked')`, w.ws)...)
	left = append(left, w.texts(t, `SELECT 'outbox row ' || topic || ' ' || status FROM outbox WHERE workspace_id = $1 AND status IN ('queued', 'ready', 'sending')`, w.ws)...)
	left = append(left, w.texts(t, `SELECT 'objective ' || status FROM agent_objectives WHERE workspace_id = $1 AND status = 'active'`, w.ws)...)
	left = append(left, w.texts(t, `SELECT 'task ' || status FROM agent_tasks WHERE workspace_id = $1 AND status <> 'COMPLETED'`, w.ws)...)
	return strings.Join(left, ", ")
}
