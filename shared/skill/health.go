package skill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Health is how a skill has done, as far as the activity log tells.
type Health struct {
	Calls     int // those that succeeded and those that failed
	Successes int
	Failures  int // of every class
	// ConsecutiveFailures are those since the last success that are the skill's own:
	// of the classes ours and theirs, and those without a class.
	ConsecutiveFailures int
	// P50 and P95 are durations that so many percent of the calls did not exceed; nil
	// where there are none.
	P50, P95       *time.Duration
	LastErrorClass Class // empty: none, or not known
	LastErrorAt    *time.Time
	LastCallAt     *time.Time
}

// maxCalls is how far back health looks, in calls.
const maxCalls = 10_000

// Health looks at a skill's calls of the last days, at most 10,000 of them. Calls
// that wait for approval or were skipped are none. It does not ask whether there is
// such a skill.
func (r *Registry) Health(ctx context.Context, ws db.Workspace, name string, days int) (Health, error) {
	var h Health
	var p50, p95 *int64
	var class *Class
	err := r.db.One(ctx, ws, []any{&h.Calls, &h.Successes, &h.Failures, &h.ConsecutiveFailures, &p50, &p95, &class, &h.LastErrorAt, &h.LastCallAt},
		r.q.Health, name, (time.Duration(days) * 24 * time.Hour).Milliseconds(), maxCalls)
	if err != nil {
		return Health{}, fmt.Errorf("read the health of skill %s: %w", name, err)
	}
	h.P50, h.P95 = milliseconds(p50), milliseconds(p95)
	set(&h.LastErrorClass, class)
	return h, nil
}

func milliseconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Millisecond
	return &d
}

// ClassOf is the class of a skill's error: whose failure it is. What is neither a
// [Refusal] nor [Uncertain] is ours.
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

// ErrorOutput is the output of a failed call's activity, in which its health finds
// the class.
func ErrorOutput(c Class) json.RawMessage {
	raw, _ := json.Marshal(map[string]Class{"class": c}) // it always encodes
	return raw
}
