// Package wiretest builds the parts of a process for tests: those of package wire, with a model and
// skills of the test.
package wiretest

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// New builds the surfaces of a process over a database, without AWS and without a model: the test sets
// Reason.Model.
func New(t testing.TB, d *db.DB, log *slog.Logger) *wire.Surfaces {
	t.Helper()
	cfg, err := app.LoadConfig([]string{"LLM_PROVIDER=demo", "SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := wire.New(app.NewCore(d, cfg, log, func(context.Context) (awssdk.Config, error) {
		return awssdk.Config{}, errors.New("there is no AWS in tests")
	}), "test")
	if err != nil {
		t.Fatal(err)
	}
	s.Reason.Models = nil
	return s
}

// Offer replaces the skills of all surfaces.
func Offer(t testing.TB, s *wire.Surfaces, skills ...skill.Skill) {
	t.Helper()
	set, err := skill.NewSet(skills...)
	if err != nil {
		t.Fatal(err)
	}
	s.Parts.Skills = func(context.Context, db.Workspace, trace.Surface) (*skill.Set, error) { return set, nil }
	s.SkillsIn = nil
}

// Log returns a logger of errors that fails a test if a hook of a unit of work logs something, because the log's
// reader would wait for the hook's transaction.
func Log(t testing.TB) *slog.Logger {
	return slog.New(outOfHooks{trace.NewHandler(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})), t})
}

type outOfHooks struct {
	slog.Handler
	t testing.TB
}

func (h outOfHooks) Enabled(ctx context.Context, level slog.Level) bool {
	return work.InHook(ctx) || h.Handler.Enabled(ctx, level)
}

func (h outOfHooks) Handle(ctx context.Context, r slog.Record) error {
	if work.InHook(ctx) {
		h.t.Errorf("logged in a hook: %s", r.Message)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h outOfHooks) WithAttrs(attrs []slog.Attr) slog.Handler {
	return outOfHooks{h.Handler.WithAttrs(attrs), h.t}
}

func (h outOfHooks) WithGroup(name string) slog.Handler {
	return outOfHooks{h.Handler.WithGroup(name), h.t}
}
