// Package workspace keeps the tenants: each row of every other table belongs to
// one, and its settings bound what agents may do there.
package workspace

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed *.sql
var files embed.FS

// Default is the workspace there always is.
const (
	Default     db.Workspace = "00000000-0000-7000-8000-000000000001"
	DefaultSlug string       = "default"
)

// Settings bound the agents of a workspace. What a workspace does not set has
// the default.
type Settings struct {
	StepsPerRun    int   `json:"steps_per_run"`    // model calls of one run
	ToolRetries    int   `json:"tool_retries"`     // tries after a call that could not be made
	BeatModelCalls int   `json:"beat_model_calls"` // of one beat
	BeatTokens     int64 `json:"beat_tokens"`      // of one beat
	SkillTimeout   int   `json:"skill_timeout"`    // seconds
	ApprovalHours  int   `json:"approval_hours"`   // that a call waits for a person

	DayTokens       int64 `json:"day_tokens"`        // of all beats of a day, by UTC
	ReflectHours    int   `json:"reflect_hours"`     // between two reflections; 0: there are none
	MemoriesPerBeat int   `json:"memories_per_beat"` // that a beat remembers by itself
	ActivityDays    int   `json:"activity_days"`     // that activity, executions and approvals are kept
	OutboxDays      int   `json:"outbox_days"`       // that what was sent is kept
	EventDays       int   `json:"event_days"`        // that events are kept
}

// Defaults are the settings of a workspace that sets none.
func Defaults() Settings {
	return Settings{StepsPerRun: 20, ToolRetries: 2, BeatModelCalls: 30, BeatTokens: 60_000, SkillTimeout: 30, ApprovalHours: 72,
		DayTokens: 500_000, ReflectHours: 24, MemoriesPerBeat: 4, ActivityDays: 90, OutboxDays: 30, EventDays: 7}
}

// sane gives what makes no sense its default: no step or no time for a skill would
// fail every run, which is not what an off switch does.
func (s *Settings) sane() {
	defaults := Defaults()
	if s.StepsPerRun < 1 {
		s.StepsPerRun = defaults.StepsPerRun
	}
	if s.SkillTimeout < 1 {
		s.SkillTimeout = defaults.SkillTimeout
	}
	if s.ApprovalHours < 1 || s.ApprovalHours > maxApprovalHours {
		s.ApprovalHours = defaults.ApprovalHours
	}
	if s.ActivityDays < 1 {
		s.ActivityDays = defaults.ActivityDays
	}
	if s.OutboxDays < 1 {
		s.OutboxDays = defaults.OutboxDays
	}
	if s.EventDays < 1 {
		s.EventDays = defaults.EventDays
	}
	s.ToolRetries = max(0, s.ToolRetries)
}

// maxApprovalHours is a year.
const maxApprovalHours = 366 * 24

type queries struct{ Ensure, All, Settings db.Query }

// Store keeps the workspaces.
type Store struct {
	db *db.DB
	q  queries
}

// New makes a store.
func New(d *db.DB) (*Store, error) {
	s := &Store{db: d}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	return s, nil
}

// EnsureDefault makes the default workspace unless it is there.
func (s *Store) EnsureDefault(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, "", s.q.Ensure, Default, DefaultSlug, "Default"); err != nil {
		return fmt.Errorf("make the default workspace: %w", err)
	}
	return nil
}

// maxAll is the most workspaces one tick serves.
const maxAll = 10_000

// All lists the workspaces.
func (s *Store) All(ctx context.Context) ([]db.Workspace, error) {
	var out []db.Workspace
	err := s.db.Each(ctx, "", func(scan db.Scan) error {
		var id db.Workspace
		err := scan(&id)
		out = append(out, id)
		return err
	}, s.q.All, maxAll)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	return out, nil
}

// Settings adds the reading of the workspace's settings to a batch; call what it
// answers once the batch has been sent. They are the defaults where the workspace
// sets nothing, or is not there. Settings that can't be read are an error of that
// call and not of the batch, which may have changed something by then.
func (s *Store) Settings(b *db.Batch) func() (Settings, error) {
	var raw json.RawMessage
	b.Each(func(scan db.Scan) error { return scan(&raw) }, s.q.Settings)
	return func() (Settings, error) {
		settings := Defaults()
		if len(raw) == 0 {
			return settings, nil
		}
		if err := json.Unmarshal(raw, &settings); err != nil {
			return Settings{}, fmt.Errorf("read workspace settings: %w", err)
		}
		settings.sane()
		return settings, nil
	}
}
