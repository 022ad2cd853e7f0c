package valkey_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/live"
	"github.com/lanekeeper/lanekeeper/shared/live/livetest"
	"github.com/lanekeeper/lanekeeper/shared/live/valkey"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// view is a client in a namespace of its own, and what looks at its keys.
type view struct {
	*valkey.Client
	raw    redis.UniversalClient
	ns     string
	failed atomic.Int32
	log    strings.Builder
}

// patient is long enough for any machine.
const patient = 5 * time.Second

func newView(t testing.TB, url string, limit time.Duration) *view {
	t.Helper()
	v := &view{ns: "t" + uuid.NewString()}
	var err error
	v.Client, err = valkey.New(valkey.Options{
		URL: url, Namespace: v.ns, Limit: limit, Log: slog.New(slog.NewTextHandler(&v.log, nil)), Failed: func() { v.failed.Add(1) },
	})
	must(t, err)
	o, err := redis.ParseURL(url)
	must(t, err)
	v.raw = redis.NewClient(o)
	t.Cleanup(func() { must(t, v.Close()); must(t, v.raw.Close()) })
	return v
}

// advance lets time pass for all keys of a view.
func (v *view) advance(t testing.TB, d time.Duration) {
	t.Helper()
	for _, key := range v.keys(t) {
		left := v.raw.PTTL(t.Context(), key).Val()
		if left > d {
			must(t, v.raw.PExpire(t.Context(), key, left-d).Err())
		} else if left >= 0 {
			must(t, v.raw.Del(t.Context(), key).Err())
		}
	}
}

// keys are the names of all keys of a view.
func (v *view) keys(t testing.TB) (all []string) {
	t.Helper()
	scan := func(ctx context.Context, r *redis.Client) error {
		found, err := r.Keys(ctx, v.ns+":*").Result()
		all = append(all, found...)
		return err
	}
	switch r := v.raw.(type) {
	case *redis.Client:
		must(t, scan(t.Context(), r))
	case *redis.ClusterClient:
		var turn = make(chan struct{}, 1)
		must(t, r.ForEachMaster(t.Context(), func(ctx context.Context, r *redis.Client) error {
			turn <- struct{}{}
			defer func() { <-turn }()
			return scan(ctx, r)
		}))
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRedis(t testing.TB, more ...string) *servers.Server {
	t.Helper()
	dbtest.Servers(t) // says what is missing
	s, err := servers.StartRedis(t.Context(), "", more...)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// alone is the world of a Redis without a database.
func (v *view) alone() *livetest.World {
	return &livetest.World{
		Ephemeral: v.Client, Workspace: db.Workspace(uuid.NewString()), Other: db.Workspace(uuid.NewString()),
		Advance: v.advance, AnyAttempt: true,
		Attempt: func(testing.TB) live.Attempt { return live.Attempt{Task: uuid.NewString(), Number: 1} },
	}
}

// before is the world of a database with a Redis before it.
func (v *view) before(t testing.TB, e dbtest.Env) *livetest.World {
	t.Helper()
	w := livetest.OnDatabase(t, e)
	w.Ephemeral = live.NewBoth(w.Durable.(*live.Database), v.Client)
	w.Advance = func(t testing.TB, d time.Duration) {
		e.Skew.Advance(d)
		v.advance(t, d)
	}
	return w
}

// newCluster starts a cluster of three masters, and returns the address of one.
func newCluster(t testing.TB) string {
	t.Helper()
	var nodes []*redis.Client
	var url string
	const slots = 16384
	for i := range 3 {
		s := newRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "15000")
		o, err := redis.ParseURL(s.URL)
		must(t, err)
		node := redis.NewClient(o)
		t.Cleanup(func() { must(t, node.Close()) })
		must(t, node.ClusterAddSlotsRange(t.Context(), i*slots/3, (i+1)*slots/3-1).Err())
		host, port, _ := strings.Cut(o.Addr, ":")
		for _, other := range nodes {
			must(t, other.ClusterMeet(t.Context(), host, port).Err())
		}
		nodes, url = append(nodes, node), s.URL
	}
	within(t, "the cluster is complete", func() bool {
		for _, node := range nodes {
			info := node.ClusterInfo(t.Context()).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(nodes))) {
				return false
			}
		}
		return true
	})
	return url
}

// within waits until a condition holds.
func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (v *view) text(t testing.TB, key string, args ...any) string {
	t.Helper()
	got, err := v.raw.Get(t.Context(), v.ns+":"+fmt.Sprintf(key, args...)).Result()
	must(t, err)
	return got
}
