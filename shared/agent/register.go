package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// Limits of an agent: texts in characters.
const (
	MaxName         = 255
	MaxTarget       = 2048
	MaxStep         = 1000
	MaxReason       = 500
	MaxCapability   = 100
	MaxCapabilities = 100
	MaxTasks        = 1000
	MaxInterval     = 24 * 60 * 60     // seconds
	MaxStale        = 7 * 24 * 60 * 60 // seconds
)

// missedBeats is after how many intervals without a heartbeat an agent is stale whose threshold is not given. It
// is degraded after two.
const missedBeats = 3

// Register adds an agent with the id and the configuration in a, or replaces the configuration of
// the agent with this id. It returns the stored agent, and whether it is new. Fields that are zero
// get their defaults; CoordinatorEnabled has none. Errors: [problem.InvalidError], and
// [StatusError] of an agent that is terminated.
func (s *Store) Register(ctx context.Context, tx Tx, a Agent) (Agent, bool, error) {
	if err := a.check(ctx); err != nil {
		return Agent{}, false, err
	}
	config := []any{
		a.ID, a.Name, db.Null(a.Model), db.Encode(a.Capabilities), a.CoordinatorEnabled, a.MaxConcurrentTasks, a.IntervalSeconds,
		a.StaleSeconds, a.Spawner, db.Null(a.SpawnerTarget),
	}
	added := tx.Later().Exec(s.q.Insert, append(slices.Clone(config), a.CreatedBy)...)
	is, err := s.head(ctx, tx, a.ID)
	switch {
	case err != nil:
		return Agent{}, false, fmt.Errorf("register an agent: %w", err)
	case added.Affected() == 1:
		return is, true, nil
	case is.Status == Terminated:
		return Agent{}, false, &StatusError{Status: is.Status, What: "a registration under the same id"}
	}
	tx.Later().Exec(s.q.Update, config...)
	is, err = s.read(ctx, tx, a.ID)
	return is, false, err
}

// check normalizes and validates what a caller says of an agent, and completes it with defaults.
func (a *Agent) check(ctx context.Context) error {
	bad := &problem.InvalidError{}
	text(ctx, bad, "name", &a.Name, 1, MaxName)
	text(ctx, bad, "model", &a.Model, 0, MaxName)
	text(ctx, bad, "spawnerTarget", &a.SpawnerTarget, 0, MaxTarget)
	orDefault(&a.MaxConcurrentTasks, DefaultTasks)
	orDefault(&a.IntervalSeconds, DefaultInterval)
	orDefault(&a.StaleSeconds, min(max(DefaultStale, missedBeats*a.IntervalSeconds), MaxStale))
	orDefault(&a.Spawner, SpawnPull)
	bad.If(a.MaxConcurrentTasks < 1 || a.MaxConcurrentTasks > MaxTasks, "maxConcurrentTasks", "must be 1 to 1000")
	bad.If(a.IntervalSeconds < 1 || a.IntervalSeconds > MaxInterval, "heartbeatIntervalSeconds", "must be 1 to 86400")
	bad.If(a.StaleSeconds < 1 || a.StaleSeconds > MaxStale, "staleThresholdSeconds", "must be 1 to 604800")
	bad.If(!slices.Contains([]Spawner{SpawnHTTP, SpawnLambda, SpawnBuiltin, SpawnPull}, a.Spawner), "spawner",
		"must be http, lambda, builtin or pull")
	capabilities := []string{}
	for _, c := range a.Capabilities {
		text(ctx, bad, "capabilities", &c, 1, MaxCapability)
		capabilities = append(capabilities, c)
	}
	slices.Sort(capabilities)
	a.Capabilities = slices.Compact(capabilities)
	bad.If(len(a.Capabilities) > MaxCapabilities, "capabilities", "may be 100 at most")
	return bad.OrNil()
}

// text normalizes a text to the form that is stored, without secrets, and checks its length.
func text(ctx context.Context, bad *problem.InvalidError, field string, s *string, shortest, longest int) {
	*s = redact.From(ctx).Values().Text(strings.TrimSpace(activity.Text(*s)))
	n := utf8.RuneCountInString(*s)
	bad.If(n < shortest || n > longest, field, fmt.Sprintf("must have %d to %d characters", shortest, longest))
}

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}
