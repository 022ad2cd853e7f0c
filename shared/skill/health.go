package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Health holds a skill's call statistics from the activity log.
type Health struct {
	Calls     int // successes and failures
	Successes int
	Failures  int // of every class
	// ConsecutiveFailures counts the failures since the last success that are the skill's own:
	// those of the classes ours and theirs, and those without a class.
	ConsecutiveFailures int
	// P50 and P95 are percentiles of the calls' durations, by nearest rank. They are nil without
	// durations.
	P50, P95       *time.Duration
	LastErrorClass Class // empty: no failure, or class unknown
	LastErrorAt    *time.Time
	LastCallAt     *time.Time
}

// maxCalls is the number of calls that Health reads at most.
const maxCalls = 10_000

// Health reads a skill's calls of the last days, at most 10,000. It does not count calls that wait
// for approval or were skipped. It does not check whether the skill exists.
func (r *Registry) Health(ctx context.Context, ws db.Workspace, name string, days int) (Health, error) {
	var h Health
	var p50, p95 *int64
	err := r.db.One(ctx, ws, []any{&h.Calls, &h.Successes, &h.Failures, &h.ConsecutiveFailures, &p50, &p95,
		db.Optional(&h.LastErrorClass), &h.LastErrorAt, &h.LastCallAt},
		r.q.Health, name, (time.Duration(days) * 24 * time.Hour).Milliseconds(), maxCalls)
	if err != nil {
		return Health{}, fmt.Errorf("read the health of skill %s: %w", name, err)
	}
	h.P50, h.P95 = milliseconds(p50), milliseconds(p95)
	return h, nil
}

func milliseconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Millisecond
	return &d
}

// ClassOf returns the class of a skill's error, which says whose failure it is. An error that is
// neither a [RefusalError] nor an [UncertainError] is [Ours].
func ClassOf(err error) Class {
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		if refusal.Class == "" {
			return Input
		}
		return refusal.Class
	}
	if _, ok := errors.AsType[*UncertainError](err); ok {
		return Theirs
	}
	return Ours
}

// ErrorOutput returns the output of a failed call's activity. [Registry.Health] reads the class
// from it.
func ErrorOutput(c Class) json.RawMessage {
	raw, _ := json.Marshal(map[string]Class{"class": c}) // this value always encodes
	return raw
}
