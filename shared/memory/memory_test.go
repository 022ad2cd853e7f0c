package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const agent = "flowpilot"

// world is a fresh workspace on one engine with its memories.
type world struct {
	dbtest.Env
	s     *memory.Store
	lanes *lane.Store
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

func newWorld(t testing.TB, e dbtest.Env) world {
	t.Helper()
	w := world{Env: e}
	var err1, err2 error
	w.s, err1 = memory.New(e.DB, ids)
	w.lanes, err2 = lane.New(e.DB)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return w
}

// neighbour returns another workspace of the same database.
func (w world) neighbour(t testing.TB) world {
	t.Helper()
	w.Workspace = dbtest.NewWorkspace(t, w.DB)
	return w
}

// in runs fn under the lane of an agent's memory.
func (w world) in(ctx context.Context, name lane.Name, fn func(context.Context, lane.Tx) error) error {
	request := lane.Request{Workspace: w.Workspace, Lane: name, Holder: "test"}
	return w.lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error { return w.lanes.InHold(ctx, h, fn) })
}

func (w world) save(t testing.TB, m memory.Memory, life ...time.Duration) (id string, isNew bool) {
	t.Helper()
	if m.Agent == "" {
		m.Agent = agent
	}
	if m.Category == "" {
		m.Category = "fact"
	}
	if m.Importance == 0 {
		m.Importance = 5
	}
	err := w.in(t.Context(), lane.Memory(m.Agent), func(ctx context.Context, tx lane.Tx) (err error) {
		id, isNew, err = w.s.Save(ctx, tx, m, slices.Max(append(life, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id, isNew
}

func (w world) newest(t testing.TB, limit int) []memory.Memory {
	t.Helper()
	found, err := w.s.Newest(t.Context(), w.Workspace, agent, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// contents returns the memories, newest first.
func (w world) contents(t testing.TB) []string {
	t.Helper()
	out := []string{}
	for _, m := range w.newest(t, 100) {
		out = append(out, m.Content)
	}
	return out
}

// lifeOf returns how long a memory lives, in whole hours. Zero means forever.
func lifeOf(m memory.Memory) time.Duration {
	if m.ExpiresAt == nil {
		return 0
	}
	return m.ExpiresAt.Sub(m.CreatedAt).Round(time.Hour)
}

func (w world) in24h() *time.Time {
	end := time.Now().Add(w.Skew.Offset() + 24*time.Hour).Truncate(time.Microsecond).UTC()
	return &end
}

func TestAMemoryIsReadBack(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		m := memory.Memory{Category: "Vorliebe", Content: "mag Grüße ☕", Importance: 10, Trace: "hb_0mh8c1v2q_a7x2p1k9d4"}
		id, isNew := w.save(t, m, 24*time.Hour)
		got := w.newest(t, 1)
		if !isNew || len(got) != 1 || got[0].ID != id || got[0].Agent != agent || got[0].Category != m.Category || got[0].Content != m.Content ||
			got[0].Importance != 10 || got[0].Trace != m.Trace || lifeOf(got[0]) != 24*time.Hour {
			t.Errorf("got %+v (new: %v)", got, isNew)
		}
	})
}

func TestTheSameThingIsRememberedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first, _ := w.save(t, memory.Memory{Content: "Ada likes  tea.", Importance: 3})
		for content, want := range map[string]bool{
			"Ada likes tea.": false, "  ada LIKES\n\ttea. ": false, "Ada likes tea": false, "Ada likes tea …": false, "Ada likes tea。": false,
			"Ada likes teas.": true, "Ada likes tea?": true, "Ada likes C#": true, "Ada likes C": true, "...": true, "!": true,
		} {
			id, isNew := w.save(t, memory.Memory{Content: content, Category: "other", Importance: 3})
			if isNew != want || (id == first) == want {
				t.Errorf("%q: new is %v, id %s", content, isNew, id)
			}
		}
		if _, isNew := w.save(t, memory.Memory{Agent: "another", Content: "Ada likes tea."}); !isNew {
			t.Error("another agent's memory is not its own")
		}
		there := w.neighbour(t)
		if _, isNew := there.save(t, memory.Memory{Content: "Ada likes tea."}); !isNew {
			t.Error("another workspace's memory is not its own")
		}
		if got := len(w.contents(t)); got != 7 {
			t.Errorf("%d things are remembered", got)
		}
	})
}

func TestSayingItAgainRaisesImportanceAndLife(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		const day, week = 24 * time.Hour, 7 * 24 * time.Hour
		for i, c := range []struct {
			importance     int
			life           time.Duration
			wantImportance int
			wantLife       time.Duration
		}{
			{5, day, 5, day}, {3, week, 5, week}, {8, day, 8, week}, {1, 0, 8, 0}, {9, day, 9, 0},
		} {
			w.save(t, memory.Memory{Content: "x", Importance: c.importance}, c.life)
			got := w.newest(t, 1)[0]
			if got.Importance != c.wantImportance || lifeOf(got) != c.wantLife {
				t.Errorf("saying %d: importance %d, until %v", i, got.Importance, got.ExpiresAt)
			}
		}
	})
}

func TestAMemoryExpires(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		first, _ := w.save(t, memory.Memory{Content: "For a DAY", Category: "old", Importance: 9}, 24*time.Hour)
		w.save(t, memory.Memory{Content: "for ever"})
		w.Skew.Advance(23 * time.Hour)
		if got := w.contents(t); !slices.Equal(got, []string{"for ever", "For a DAY"}) {
			t.Errorf("after 23 hours: %q", got)
		}
		w.Skew.Advance(61 * time.Minute)
		if got := w.contents(t); !slices.Equal(got, []string{"for ever"}) {
			t.Errorf("after a day: %q", got)
		}
		id, isNew := w.save(t, memory.Memory{Content: "for a day", Category: "new", Importance: 2}, 24*time.Hour) // it has not expired any more
		if got := w.contents(t); id != first || isNew || !slices.Contains(got, "for a day") {
			t.Errorf("said again: %q (new: %v)", got, isNew)
		}
		if m := w.newest(t, 1)[0]; m.ID != first || m.Category != "new" || m.Importance != 2 || lifeOf(m) != 24*time.Hour {
			t.Errorf("of the expired one is left: %+v", m)
		}
	})
}

func TestNewestComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for i := range 5 {
			w.save(t, memory.Memory{Content: fmt.Sprint(i)})
		}
		w.save(t, memory.Memory{Agent: "another", Content: "theirs"})
		if got := w.contents(t); !slices.Equal(got, []string{"4", "3", "2", "1", "0"}) {
			t.Errorf("got %q", got)
		}
		if got := w.newest(t, 2); len(got) != 2 || got[0].Content != "4" {
			t.Errorf("two newest are %+v", got)
		}
	})
}

func TestWhatIsNotAMemoryIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for name, m := range map[string]memory.Memory{
			"no content":         {Agent: agent, Category: "c", Importance: 5},
			"long":               {Agent: agent, Category: "c", Importance: 5, Content: strings.Repeat("x", 8001)},
			"no category":        {Agent: agent, Importance: 5, Content: "x"},
			"importance 0":       {Agent: agent, Category: "c", Content: "x"},
			"importance 11":      {Agent: agent, Category: "c", Importance: 11, Content: "x"},
			"the character NUL":  {Agent: agent, Category: "c", Importance: 5, Content: "a\x00b"},
			"bytes of no letter": {Agent: agent, Category: "c", Importance: 5, Content: "\xff"},
		} {
			err := w.in(t.Context(), lane.Memory(agent), func(ctx context.Context, tx lane.Tx) error {
				_, _, err := w.s.Save(ctx, tx, m, 0)
				return err
			})
			if !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := w.contents(t); len(got) > 0 {
			t.Errorf("remembered %q", got)
		}
	})
}

func TestTheWrongLaneProvesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		save := func(ctx context.Context, tx lane.Tx) error {
			_, _, err := w.s.Save(ctx, tx, memory.Memory{Agent: agent, Category: "c", Content: "x", Importance: 5}, 0)
			return err
		}
		if err := w.in(t.Context(), lane.Memory("another"), save); !errors.Is(err, lane.ErrNotProven) {
			t.Errorf("under another agent's lane: %v", err)
		}
		if err := save(t.Context(), lane.Tx{}); !errors.Is(err, lane.ErrNotProven) {
			t.Errorf("without any proof: %v", err)
		}
		if got := w.contents(t); len(got) > 0 {
			t.Errorf("remembered %q", got)
		}
	})
}

func TestSaveMemoryRemembersForTheAgentThatCalls(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.Skew.Advance(1000 * time.Hour) // the local clock differs from the database's, which decides
		all, err := memory.Skills(w.s)
		if err != nil {
			t.Fatal(err)
		}
		set, err := skill.NewSet(all...)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := set.Find("save_memory")
		search, found := set.Find("search_memory")
		if !ok || !found || k.Scope != skill.Internal || search.Scope != skill.Internal {
			t.Fatalf("visitors of a chat share memories: %+v, %+v", k, search)
		}
		use := func(arguments string) map[string]any {
			call := skill.Call{Workspace: w.Workspace, Agent: agent, Arguments: []byte(arguments)}
			if v := k.Check(t.Context(), call.Arguments); len(v) > 0 {
				t.Fatal(v)
			}
			var value any
			ctx := trace.With(t.Context(), "hb_0mh8c1v2q_a7x2p1k9d4")
			err := w.in(ctx, k.Lanes(call)[0], func(ctx context.Context, tx lane.Tx) (err error) {
				value, err = k.Run(ctx, tx, call)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return value.(map[string]any)
		}
		first := use(`{"category": "fact", "content": "x"}`)
		again := use(`{"category": "fact", "content": "X", "importance": 9}`)
		if first["new"] != true || again["new"] != false || first["memoryId"] != again["memoryId"] {
			t.Errorf("first %v, again %v", first, again)
		}
		if m := w.newest(t, 1)[0]; m.Importance != 9 || m.Trace != "hb_0mh8c1v2q_a7x2p1k9d4" || m.ExpiresAt != nil {
			t.Errorf("remembered %+v", m)
		}
		for days, life := range map[int]time.Duration{1: 24 * time.Hour, 3650: 3650 * 24 * time.Hour} {
			use(fmt.Sprintf(`{"category": "fact", "content": "for %d", "days": %d}`, days, days))
			if m := w.newest(t, 1)[0]; m.Importance != 5 || lifeOf(m) != life {
				t.Errorf("remembered %+v", m)
			}
		}
	})
}
