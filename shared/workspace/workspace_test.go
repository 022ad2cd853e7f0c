package workspace_test

import (
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// world is a fresh workspace on one engine.
type world struct {
	dbtest.Env
	s *workspace.Store
	q struct{ Set, Unknown, Acquire db.Query }
}

func onEach(t *testing.T, fn func(t *testing.T, w world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) {
		w := world{Env: e}
		dbtest.Load(t, "testdata", &w.q)
		var err error
		if w.s, err = workspace.New(e.DB); err != nil {
			t.Fatal(err)
		}
		fn(t, w)
	})
}

func (w world) settings(t testing.TB, ws db.Workspace) (workspace.Settings, error) {
	t.Helper()
	var b db.Batch
	settings := w.s.Settings(&b)
	if err := w.DB.Read(t.Context(), ws, &b); err != nil {
		t.Fatal(err)
	}
	return settings()
}

func (w world) set(t testing.TB, raw string) {
	t.Helper()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.Set, raw); err != nil {
		t.Fatal(err)
	}
}

func TestTheDefaultWorkspaceIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for range 3 {
			if err := w.s.EnsureDefault(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all, err := w.s.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(all, workspace.Default) || !slices.Contains(all, w.Workspace) || !slices.IsSorted(all) {
			t.Errorf("there are %v", all)
		}
	})
}

func TestSettingsHaveDefaults(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for raw, change := range map[string]func(*workspace.Settings){
			`{}`:                                    func(*workspace.Settings) {},
			`{"steps_per_run": 7, "unknown": [1]}`:  func(s *workspace.Settings) { s.StepsPerRun = 7 },
			`{"beat_tokens": 0, "tool_retries": 0}`: func(s *workspace.Settings) { s.BeatTokens, s.ToolRetries = 0, 0 },
			`{"beat_model_calls": 1, "skill_timeout": 90}`:         func(s *workspace.Settings) { s.BeatModelCalls, s.SkillTimeout = 1, 90 },
			`{"steps_per_run": 0, "skill_timeout": -1}`:            func(*workspace.Settings) {}, // would fail every run
			`{"approval_hours": 1, "steps_per_run": 0}`:            func(s *workspace.Settings) { s.ApprovalHours = 1 },
			`{"approval_hours": 0}`:                                func(*workspace.Settings) {}, // would deny every call
			`{"approval_hours": 100000000}`:                        func(*workspace.Settings) {},
			`{"tool_retries": -3, "session_queue": 0}`:             func(*workspace.Settings) {},
			`{"steps_per_run": null, "day_tokens": 1000000000000}`: func(s *workspace.Settings) { s.DayTokens = 1_000_000_000_000 },
		} {
			w.set(t, raw)
			want := workspace.Defaults()
			change(&want)
			if got, err := w.settings(t, w.Workspace); err != nil || got != want {
				t.Errorf("%s: %+v (%v), want %+v", raw, got, err, want)
			}
		}
		if got, err := w.settings(t, "00000000-0000-7000-8000-00000000dead"); err != nil || got != workspace.Defaults() {
			t.Errorf("one that is not there has %+v (%v)", got, err)
		}
	})
}

func TestBrokenSettingsAreAnError(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, raw := range []string{`{"steps_per_run": "many"}`, `[]`, `1`} {
			w.set(t, raw)
			if got, err := w.settings(t, w.Workspace); err == nil {
				t.Errorf("%s was read as %+v", raw, got)
			}
		}
	})
}
