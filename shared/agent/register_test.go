package agent_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

func TestRegistrationAddsOnceAndThenReplaces(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft(" builder ")
		d.Capabilities = []string{"rust", "go", "go"}
		is := w.registered(t, d)
		want := agent.Agent{
			ID: d.ID, Name: "builder", Status: agent.Idle, Capabilities: []string{"go", "rust"}, CoordinatorEnabled: true, MaxConcurrentTasks: 1,
			IntervalSeconds: 30, StaleSeconds: 180, Spawner: agent.SpawnPull, Generation: 1, Version: 1, CreatedBy: "user:ada",
		}
		varies := cmp.Options{cmpopts.IgnoreUnexported(agent.Agent{}), cmpopts.IgnoreFields(agent.Agent{}, "CreatedAt", "UpdatedAt", "IdleSince")}
		if diff := cmp.Diff(want, is, varies); diff != "" || is.IdleSince == nil {
			t.Fatalf("a new agent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(is, w.get(t, d.ID), cmpopts.IgnoreUnexported(agent.Agent{})); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
		next := agent.Agent{
			ID: d.ID, Name: "mender", Model: "m", MaxConcurrentTasks: 4, IntervalSeconds: 1, StaleSeconds: 2, Spawner: agent.SpawnHTTP,
			SpawnerTarget: "https://gateway.example", CreatedBy: "user:bob",
		}
		again, added, err := w.register(t, next)
		if err != nil || added {
			t.Fatalf("the same id again: added %t, %v", added, err)
		}
		want = agent.Agent{
			ID: d.ID, Name: "mender", Model: "m", Status: agent.Idle, Capabilities: []string{}, MaxConcurrentTasks: 4, IntervalSeconds: 1,
			StaleSeconds: 2, Spawner: agent.SpawnHTTP, SpawnerTarget: "https://gateway.example", Generation: 1, Version: 2, CreatedBy: "user:ada",
		}
		if diff := cmp.Diff(want, again, varies); diff != "" {
			t.Errorf("a changed agent (-want +got):\n%s", diff)
		}
	})
}

// TestASlowHeartIsNotStaleBetweenItsBeats: without a threshold of its own, an agent may miss two heartbeats,
// and 180 seconds at least.
func TestASlowHeartIsNotStaleBetweenItsBeats(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for interval, want := range map[int]int{1: 180, 60: 180, 300: 900, agent.MaxInterval: 3 * agent.MaxInterval} {
			d := draft("slow")
			d.IntervalSeconds = interval
			if is := w.registered(t, d); is.StaleSeconds != want {
				t.Errorf("with a heartbeat each %d s it is stale after %d s, want %d s", interval, is.StaleSeconds, want)
			}
		}
	})
}

func TestOneOfManyRegistrationsAddsTheAgent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		d := draft("builder")
		var wg sync.WaitGroup
		added, errs := make([]bool, 8), make([]error, 8)
		for i := range added {
			wg.Go(func() { _, added[i], errs[i] = w.register(t, d) })
		}
		wg.Wait()
		news := 0
		for _, is := range added {
			if is {
				news++
			}
		}
		if err := errors.Join(errs...); err != nil || news != 1 {
			t.Errorf("%d registrations added the agent: %v", news, err)
		}
		if is := w.get(t, d.ID); is.Version != len(added) {
			t.Errorf("version %d after %d registrations", is.Version, len(added))
		}
	})
}

func TestARegistrationNamesAllBadFields(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		_, _, err := w.register(t, agent.Agent{
			ID: ids(), Name: " ", Model: strings.Repeat("x", 256), Capabilities: []string{""}, MaxConcurrentTasks: -1, IntervalSeconds: -1,
			StaleSeconds: 1e9, Spawner: "magic", SpawnerTarget: strings.Repeat("x", 2049), CreatedBy: "user:ada",
		})
		var bad *problem.InvalidError
		if !errors.As(err, &bad) {
			t.Fatalf("got %v", err)
		}
		var fields []string
		for _, f := range bad.Fields {
			fields = append(fields, f.Field)
		}
		slices.Sort(fields)
		want := []string{"capabilities", "heartbeatIntervalSeconds", "maxConcurrentTasks", "model", "name", "spawner", "spawnerTarget", "staleThresholdSeconds"}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
}

func TestAListingFiltersAndPages(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var all []string
		for i := range 5 {
			d := draft("agent")
			d.CoordinatorEnabled = i%2 == 0
			if i < 3 {
				d.Capabilities = []string{"go", `say "hi"`}
			}
			all = append([]string{w.registered(t, d).ID}, all...)
		}
		list := func(f agent.Filter) (found []string) {
			t.Helper()
			f.Limit = max(f.Limit, 2)
			for {
				page, err := w.s.List(t.Context(), w.Workspace, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range page {
					found = append(found, a.ID)
				}
				if len(page) < f.Limit {
					return found
				}
				last := page[len(page)-1]
				f.Before = db.Position{At: last.CreatedAt, ID: last.ID}
			}
		}
		yes, no := true, false
		for _, c := range []struct {
			name string
			f    agent.Filter
			want []string
		}{
			{"all", agent.Filter{}, all},
			{"by status", agent.Filter{Status: agent.Idle}, all},
			{"by another status", agent.Filter{Status: agent.Error}, nil},
			{"enabled", agent.Filter{CoordinatorEnabled: &yes}, []string{all[0], all[2], all[4]}},
			{"disabled", agent.Filter{CoordinatorEnabled: &no}, []string{all[1], all[3]}},
			{"by capability", agent.Filter{Capability: `say "hi"`}, all[2:]},
			{"by part of a capability", agent.Filter{Capability: "g"}, nil},
		} {
			if diff := cmp.Diff(c.want, list(c.f)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

func TestThereIsNoSuchAgent(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if _, err := w.s.Get(t.Context(), w.Workspace, ids()); !errors.Is(err, db.ErrNoRows) {
			t.Errorf("got %v", err)
		}
	})
}
