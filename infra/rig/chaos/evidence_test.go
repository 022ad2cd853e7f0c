package chaos_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// longestEvidence is the largest number of log lines that are printed.
const longestEvidence = 400

// evidence describes a round in which work is stuck. It returns the rows that hold waiting work and
// locks, the current activity of the database, and what operate, heartbeat, coordinator and worker have logged since the round
// began, in the order of time.
func (s *storm) evidence(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, rows := range []struct{ what, sql string }{
		{"the database's clock", `SELECT to_jsonb(lk_now())::text`},
		{"threads", `SELECT to_jsonb(x)::text FROM threads x ORDER BY id`},
		{"outbox, open or of the round", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM outbox x
			WHERE status IN ('queued', 'ready', 'sending', 'uncertain') OR updated_at >= $1 ORDER BY created_at`},
		{"executions, open or of the round", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM executions x
			WHERE status IN ('running', 'waiting', 'parked') OR updated_at >= $1 ORDER BY created_at`},
		{"approvals, pending or of the round", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM approvals x
			WHERE status = 'pending' OR requested_at >= $1 ORDER BY requested_at`},
		{"tasks of the round", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM agent_tasks x WHERE updated_at >= $1 OR status <> 'COMPLETED' ORDER BY created_at`},
		{"lanes", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM agent_locks x WHERE token IS NOT NULL ORDER BY lane`},
		{"circuits", `SELECT (to_jsonb(x) - 'workspace_id')::text FROM provider_circuits x`},
		{"sessions", `SELECT jsonb_build_object('pid', pid, 'state', state, 'since', state_change, 'waits', wait_event_type || '/' || wait_event,
			'blocked by', pg_blocking_pids(pid), 'query', left(query, 300))::text
			FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`},
	} {
		var args []any
		if strings.Contains(rows.sql, "$1") {
			args = append(args, s.began)
		}
		fmt.Fprintf(&out, "%s:\n", rows.what)
		for _, row := range s.texts(t, rows.sql, args...) {
			fmt.Fprintf(&out, "  %s\n", row)
		}
	}
	out.WriteString("logs since the round began:\n")
	for _, line := range since(s.here, s.operate.Logs(), s.heart.Logs(), s.coord.Logs(), s.worker.Logs()) {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	return out.String()
}

// since returns the last lines of the logs from a time on, in the order of time.
func since(begin time.Time, logs ...string) []string {
	type entry struct {
		at   time.Time
		line string
	}
	var all []entry
	for _, log := range logs {
		at := time.Time{}
		for line := range strings.Lines(log) {
			var head struct{ Time time.Time }
			if json.Unmarshal([]byte(line), &head) == nil && !head.Time.IsZero() {
				at = head.Time // otherwise the line belongs to the previous one
			}
			if !at.Before(begin) {
				all = append(all, entry{at, strings.TrimSpace(line)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	all = all[max(0, len(all)-longestEvidence):]
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = e.line
	}
	return lines
}
