package valkey_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/live/livetest"
	"github.com/lanekeeper/lanekeeper/shared/task"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

// TestConformance: a Redis passes the cases of its part, alone, as a cluster, and before a database,
// whether it is there or not.
func TestConformance(t *testing.T) {
	p := promise.Of(t, "R20", "the suite's ephemeral part on Redis, a cluster, and both with a database", "the same outcomes")
	n := 0
	t.Run("alone", func(t *testing.T) {
		n = livetest.Run(t, newView(t, dbtest.Servers(t).RedisURL, patient).alone(), livetest.Ephemeral())
	})
	t.Run("cluster", func(t *testing.T) {
		v := newView(t, newCluster(t), patient)
		v.onCluster(t)
		livetest.Run(t, v.alone(), livetest.Ephemeral())
	})
	t.Run("before a database", func(t *testing.T) {
		w := newView(t, dbtest.Servers(t).RedisURL, patient).before(t, dbtest.New(t, dbtest.OnSQLite))
		w.AnyAttempt = true // the Redis takes them
		livetest.Run(t, w, livetest.Ephemeral())
	})
	t.Run("away", func(t *testing.T) {
		w := newView(t, dbtest.Servers(t).RedisURL, patient).before(t, dbtest.New(t, dbtest.OnSQLite))
		dead := newView(t, "redis://127.0.0.1:1", patient)
		w.Ephemeral = live.NewBoth(w.Durable.(*live.Database), dead.Client)
		livetest.Run(t, w, livetest.Ephemeral())
		if dead.failed.Load() == 0 {
			t.Error("no failure was counted")
		}
	})
	p.Tell("%d cases on each of 4", n)
}

// onCluster looks at the keys of a cluster.
func (v *view) onCluster(t testing.TB) {
	t.Helper()
	o := v.raw.(*redis.Client).Options()
	must(t, v.raw.Close())
	v.raw = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}})
}

func TestDurableMethodsAreRefused(t *testing.T) {
	v := newView(t, "redis://127.0.0.1:1", time.Millisecond)
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	_, err := v.CreateTask(t.Context(), "", task.Task{})
	note(err)
	_, err = v.GetTask(t.Context(), "", "")
	note(err)
	_, err = v.UpdateTask(t.Context(), "", task.Report{}, live.Retry{})
	note(err)
	_, err = v.ListTasks(t.Context(), "", task.Filter{})
	note(err)
	_, err = v.GetOrCreateThread(t.Context(), "", thread.Thread{})
	note(err)
	_, err = v.GetThread(t.Context(), "", "")
	note(err)
	_, err = v.UpdateThread(t.Context(), "", "", thread.Change{})
	note(err)
	_, err = v.AppendMessage(t.Context(), "", "", thread.Spoken{})
	note(err)
	_, err = v.GetMessages(t.Context(), "", "", 1)
	note(err)
	for i, err := range errs {
		if !errors.Is(err, live.ErrEphemeral) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if len(errs) != 9 || v.failed.Load() > 0 {
		t.Error(len(errs), "methods", v.failed.Load(), "calls")
	}
}
