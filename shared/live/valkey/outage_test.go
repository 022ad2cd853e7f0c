package valkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// asks makes many calls, and returns how many of them reached for the Redis and failed. The circuit
// bounds that by the time that passed.
func (v *view) asks(t testing.TB, calls int) (failed, atMost int) {
	t.Helper()
	begun, before := time.Now(), v.failed.Load()
	for range calls {
		_, _, err := v.GetResult(t.Context(), "", live.Attempt{Task: uuid.NewString(), Number: 1})
		if err == nil {
			t.Fatal("it answers")
		}
	}
	return int(v.failed.Load() - before), 2 + int(time.Since(begun)/time.Second)
}

// TestARedisThatIsGone: it is asked rarely while it is dead or frozen, the log says so once, and it is
// used again once it is back.
func TestARedisThatIsGone(t *testing.T) {
	for name, gone := range map[string]struct{ away, back func(*servers.Server) error }{
		"killed": {func(s *servers.Server) error { return s.Stop(servers.Immediate) }, func(s *servers.Server) error { return s.Start(context.Background()) }},
		"frozen": {(*servers.Server).Freeze, (*servers.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			server := newRedis(t)
			v := newView(t, server.URL, 200*time.Millisecond)
			within(t, "it answers", func() bool { return v.Check(t.Context()) == nil })
			v.log.Reset()
			must(t, gone.away(server))
			if failed, atMost := v.asks(t, 300); failed < 1 || failed > atMost {
				t.Errorf("%d of 300 calls reached for it, at most %d may", failed, atMost)
			}
			if _, _, err := v.Position(t.Context(), ""); !errors.Is(err, live.ErrDown) && err == nil {
				t.Error("it answers")
			}
			if err := v.Check(t.Context()); err == nil {
				t.Error("it is healthy")
			}
			if told := strings.Count(v.log.String(), "can't be reached"); told != 1 {
				t.Errorf("the log says it %d times:\n%s", told, v.log.String())
			}
			must(t, gone.back(server))
			within(t, "it is used again", func() bool {
				_, _, err := v.GetResult(t.Context(), "", live.Attempt{Task: uuid.NewString(), Number: 1})
				return err == nil
			})
			if !strings.Contains(v.log.String(), "can be reached again") {
				t.Error(v.log.String())
			}
		})
	}
}

// TestARedisWithoutTheCommandCluster is a single server, as it is with those who hide that command.
func TestARedisWithoutTheCommandCluster(t *testing.T) {
	v := newView(t, newRedis(t, "--rename-command", "CLUSTER", "").URL, patient)
	must(t, v.Check(t.Context()))
}

// TestACallerThatLeaves says nothing about the Redis.
func TestACallerThatLeaves(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := v.GetResult(ctx, "", live.Attempt{Task: uuid.NewString(), Number: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if v.failed.Load() > 0 {
		t.Error("it was counted")
	}
}

// TestAnAddressWithAPassword is told nowhere.
func TestAnAddressWithAPassword(t *testing.T) {
	v := newView(t, "redis://u:canary-of-the-live-view@127.0.0.1:1", 50*time.Millisecond)
	err := v.Check(t.Context())
	if text := fmt.Sprint(err, v.log.String()); err == nil || strings.Contains(text, "canary") {
		t.Error(text)
	}
}

// round is what the world does to the Redis before a round of work.
type round func(t testing.TB, s *servers.Server, v *view)

// TestARunWithoutItsRedis: a run whose Redis is killed, frozen and flushed in the middle ends as one
// whose Redis is well, and no agent is taken for dead.
func TestARunWithoutItsRedis(t *testing.T) {
	rounds := promise.Figure(12, 500)
	p := promise.Of(t, "R19", "tasks by agents, cycles and results while the Redis is killed, frozen and flushed", "as with a Redis; no agent dead")
	kills, flushes, freezes := 0, 0, 0
	well := []round{func(testing.TB, *servers.Server, *view) {}}
	trouble := []round{func(t testing.TB, s *servers.Server, _ *view) { must(t, s.Stop(servers.Immediate)); kills++ }}
	for range promise.Figure(1, 20) { // it stays away for half a minute each
		trouble = append(trouble, well...)
	}
	trouble = append(trouble,
		func(t testing.TB, s *servers.Server, _ *view) { must(t, s.Start(t.Context())) },
		func(t testing.TB, _ *servers.Server, v *view) {
			if v.raw.FlushAll(t.Context()).Err() == nil {
				flushes++
			}
		},
		func(t testing.TB, s *servers.Server, _ *view) { must(t, s.Freeze()); freezes++ },
		func(t testing.TB, s *servers.Server, _ *view) { must(t, s.Thaw()) },
	)
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		want := runs(t, engine, rounds, well)
		got := runs(t, engine, rounds, trouble)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", engine, diff)
		}
		if len(want) != 2*rounds {
			t.Errorf("%s: %d tasks", engine, len(want))
		}
	}
	p.Tell("%d kills, %d flushes, %d freezes in %d rounds on 2 engines: the same results, no agent dead", kills, flushes, freezes, rounds)
}

// runs lets agents work for rounds of half a minute, and returns how each task ended.
func runs(t *testing.T, engine string, rounds int, happens []round) (ended []string) {
	t.Helper()
	server := newRedis(t)
	defer func() { must(t, server.Thaw()) }()
	v := newView(t, server.URL, 100*time.Millisecond)
	w := newWorld(t, dbtest.New(t, engine), v)
	both := live.NewBoth(w.far, v.Client)
	agents := []string{w.pull(t, "a"), w.pull(t, "b"), w.pull(t, "c"), w.pull(t, "d")}
	working := map[string]task.Task{}
	var made []string
	step := func(i int) {
		happens[i%len(happens)](t, server, v)
		made = append(made, w.create(t, fmt.Sprint("one ", i), 5), w.create(t, fmt.Sprint("two ", i), 5))
		w.work(t, both, agents, working)
		w.Skew.Advance(30 * time.Second)
		if r := w.cycle(t); r.Gone > 0 || r.Recovered > 0 || r.Stale > 0 || r.MassStale {
			t.Errorf("round %d: %+v", i, r)
		}
	}
	for i := range rounds {
		step(i)
	}
	for range 3 { // what was begun ends
		w.work(t, both, agents, working)
	}
	for _, id := range made {
		is, err := w.far.GetTask(t.Context(), w.Workspace, id)
		must(t, err)
		ended = append(ended, fmt.Sprintf("%s: %s, attempt %d, %s", is.Title, is.Status, is.Attempt, is.Output))
	}
	return ended
}

// work has each agent end what it has, send its heartbeat, and claim what is next.
func (w *world) work(t testing.TB, both *live.Both, agents []string, working map[string]task.Task) {
	t.Helper()
	for _, a := range agents {
		on := working[a]
		if on.ID != "" {
			done, err := both.UpdateTask(t.Context(), w.Workspace, task.Report{Task: on.ID, Attempt: on.Attempt, Actor: "agent:" + a, Agent: a},
				live.Complete{Output: []byte(fmt.Sprintf("%q", on.Title))})
			must(t, err)
			w.live.Ended(t.Context(), w.Workspace, done)
			must(t, both.SetResult(t.Context(), w.Workspace, live.Attempt{Task: on.ID, Number: on.Attempt}, done.Output, 0))
		}
		w.beat(t, a, "")
		lock := live.Lock{Name: "claim:" + a, Token: uuid.NewString()}
		if got, err := both.TryLock(t.Context(), w.Workspace, lock, time.Minute); err != nil || !got {
			t.Error("the lock of one alone is refused", err)
		}
		working[a], _ = w.claim(t, a)
		if got, err := both.ReleaseLock(t.Context(), w.Workspace, lock); err != nil || !got {
			t.Error("the lock was not held", err)
		}
	}
}

// TestLockOutlivesItsRedis: who holds a lock holds it also when the Redis forgets it.
func TestLockOutlivesItsRedis(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	e := dbtest.New(t, dbtest.OnSQLite)
	both := live.NewBoth(newWorld(t, e, v).far, v.Client)
	mine, theirs := live.Lock{Name: "a", Token: uuid.NewString()}, live.Lock{Name: "a", Token: uuid.NewString()}
	try := func(l live.Lock, want bool) {
		t.Helper()
		if got, err := both.TryLock(t.Context(), e.Workspace, l, time.Hour); err != nil || got != want {
			t.Error(got, err)
		}
	}
	try(mine, true)
	try(theirs, false)
	must(t, v.raw.Del(t.Context(), v.keys(t)...).Err())
	try(theirs, false)
	if keys := v.keys(t); slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, ":lock:") }) {
		t.Errorf("a lock that was refused left %v", keys)
	}
	try(mine, true)
}

// TestARefusedCommandOpensNoCircuit: the Redis is there, and the next command may do.
func TestARefusedCommandOpensNoCircuit(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	must(t, v.raw.Set(t.Context(), v.ns+":live:position:{w}", "another's", time.Minute).Err())
	if _, _, err := v.Position(t.Context(), "w"); err == nil || errors.Is(err, live.ErrDown) {
		t.Error(err)
	}
	if _, _, err := v.GetResult(t.Context(), "w", live.Attempt{Task: uuid.NewString(), Number: 1}); err != nil {
		t.Error(err)
	}
	if v.failed.Load() > 0 || strings.Contains(v.log.String(), "can't be reached") || !strings.Contains(v.log.String(), "refused") {
		t.Error(v.failed.Load(), v.log.String())
	}
}

// many publishes more than is sent at once, with a command that was carried out as its news.
func (v *view) many(t testing.TB, events string) error {
	var all live.View
	for range 2 * 500 {
		all.Agents = append(all.Agents, live.Watched{ID: uuid.NewString()})
	}
	return v.Publish(t.Context(), "w", all, live.News{
		Commands: []live.CommandDone{{Command: events}}, After: live.Position{Events: events, Commands: time.UnixMicro(7)},
	})
}

// at requires that the position of the news is what is wanted.
func (v *view) at(t testing.TB, want string) {
	t.Helper()
	if got, there, err := v.Position(t.Context(), "w"); err != nil || !there || got.Events != want {
		t.Error(got, there, err)
	}
}

// TestNewsThatWereCutOffComeAgain: up to where news was published is stored after it was.
func TestNewsThatWereCutOffComeAgain(t *testing.T) {
	url, cut := cutting(t, dbtest.Servers(t).RedisURL, "stale_agents")
	v := newView(t, url, patient)
	must(t, v.many(t, "1"))
	v.at(t, "1")
	cut.Store(true)
	if err := v.many(t, "2"); err == nil {
		t.Error("nothing was cut off")
	}
	cut.Store(false)
	within(t, "it is used again", func() bool { return v.Check(t.Context()) == nil })
	v.at(t, "1")
	must(t, v.many(t, "3"))
	v.at(t, "3")
}

// TestARefusedCommandHoldsNoNewsBack: what comes after it is told once, and so are later news.
func TestARefusedCommandHoldsNoNewsBack(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	heard := v.raw.Subscribe(t.Context(), v.ns+":coordinator:commands:{w}")
	defer heard.Close()
	_, err := heard.Receive(t.Context())
	must(t, err)
	must(t, v.raw.Set(t.Context(), v.ns+":coordinator:stale_agents", "another's", time.Minute).Err())
	for _, events := range []string{"1", "2"} {
		if err := v.many(t, events); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Error(err)
		}
		v.at(t, events)
		select {
		case m := <-heard.Channel():
			if !strings.Contains(m.Payload, `"`+events+`"`) {
				t.Error(m.Payload)
			}
		case <-time.After(patient):
			t.Errorf("the news before %s were not told", events)
		}
	}
	if v.failed.Load() > 0 || strings.Count(v.log.String(), "level=WARN") != 1 || !strings.Contains(v.log.String(), "WRONGTYPE") {
		t.Error(v.failed.Load(), v.log.String())
	}
}

// TestNewsWhosePositionIsRefusedIsNotRepeated: it is told once, when the Redis takes the position.
func TestNewsWhosePositionIsRefusedIsNotRepeated(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	heard := v.raw.Subscribe(t.Context(), v.ns+":coordinator:commands:{w}")
	defer heard.Close()
	_, err := heard.Receive(t.Context())
	must(t, err)
	position := v.ns + ":live:position:{w}"
	must(t, v.raw.Set(t.Context(), position, "another's", time.Minute).Err())
	for range 3 {
		if err := v.many(t, "1"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Error(err)
		}
	}
	must(t, v.raw.Del(t.Context(), position).Err())
	must(t, v.many(t, "1"))
	v.at(t, "1")
	must(t, v.many(t, "2"))
	for n := 1; n <= 2; n++ {
		select {
		case m := <-heard.Channel():
			if !strings.Contains(m.Payload, fmt.Sprintf(`"%d"`, n)) {
				t.Errorf("instead of the news before %d: %s", n, m.Payload)
			}
		case <-time.After(patient):
			t.Fatalf("the news before %d were not told", n)
		}
	}
}

// cutting returns the address of a way to a Redis. While cut, it ends each connection that sends the word.
func cutting(t testing.TB, url, word string) (through string, cut *atomic.Bool) {
	t.Helper()
	o, err := redis.ParseURL(url)
	must(t, err)
	from, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	cut = new(atomic.Bool)
	var all sync.WaitGroup
	pass := func(near net.Conn) {
		defer near.Close()
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", o.Addr)
		if err != nil {
			return
		}
		defer far.Close()
		all.Go(func() { _, _ = io.Copy(near, far) })
		for piece := make([]byte, 1<<16); ; {
			n, err := near.Read(piece)
			if err != nil || cut.Load() && bytes.Contains(piece[:n], []byte(word)) {
				return
			}
			if _, err := far.Write(piece[:n]); err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			near, err := from.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pass(near) })
		}
	})
	t.Cleanup(func() { must(t, from.Close()); all.Wait() })
	return strings.Replace(url, o.Addr, from.Addr().String(), 1), cut
}

// TestAResultIsFoundWithoutItsRedis: one that was stored while the Redis was away is in the database alone.
func TestAResultIsFoundWithoutItsRedis(t *testing.T) {
	v := newView(t, dbtest.Servers(t).RedisURL, patient)
	e := dbtest.New(t, dbtest.OnSQLite)
	w := newWorld(t, e, v)
	a := w.pull(t, "a")
	w.create(t, "one", 5)
	one, _ := w.claim(t, a)
	of := live.Attempt{Task: one.ID, Number: one.Attempt}
	must(t, w.far.SetResult(t.Context(), e.Workspace, of, []byte(`{"n":1}`), time.Hour))
	got, there, err := live.NewBoth(w.far, v.Client).GetResult(t.Context(), e.Workspace, of)
	if err != nil || !there || string(got) != `{"n":1}` {
		t.Errorf("%s, %t, %v", got, there, err)
	}
}
