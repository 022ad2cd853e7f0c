// Package activity is the log of what agents did. Each action is one row. It is written in the
// transaction of the change that it reports, so that log and state agree. It is never changed
// afterwards.
package activity

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Status is how an action ended.
type Status string

// The statuses of an action.
const (
	Success         Status = "success"
	Error           Status = "error"
	PendingApproval Status = "pending_approval"
	Skipped         Status = "skipped"
)

// Names of actions that are not skills. No skill can have these names.
const (
	ModelCall   = "(model)"   // a call of a model: what it answered and used
	UnknownTool = "(unknown)" // a model asked for a tool that does not exist
)

// Operator is the name of the operator's own agent.
const Operator = "flowpilot"

// Usage counts a model's tokens.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// Dollars converts millionths of a dollar to dollars, as in an entry. It returns nil for zero.
func Dollars(microUSD int64) *float64 {
	if microUSD == 0 {
		return nil
	}
	return new(float64(microUSD) / 1e6)
}

// Entry is one action.
type Entry struct {
	ID              string
	Agent           string
	Surface         trace.Surface
	Skill           string // name of the skill, or of the phase
	SkillID         string
	Status          Status
	Input           json.RawMessage
	Output          json.RawMessage
	Error           string
	Usage           *Usage
	Model           string
	CostUSD         *float64
	Duration        time.Duration
	Trace           trace.ID
	Execution       string
	ParentExecution string
	Attempt         int
	Thread          string
	CreatedAt       time.Time
}

type queries struct{ Record, List, OfTrace, Used, Histogram, Audit db.Query }

// Log is the activity log of all workspaces.
type Log struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New returns a log. ids makes time-ordered ids (UUIDv7).
func New(d *db.DB, ids func() string) (*Log, error) {
	l := &Log{db: d, ids: ids}
	return l, db.Load(files, &l.q)
}

// Record adds an action to the batch of the change that it reports. Trace and execution come from
// the context, unless the entry has its own. Input and output are cut at 32 KiB, and the context's
// redactor removes secrets from them. No text makes the transaction fail.
func (l *Log) Record(ctx context.Context, b *db.Batch, e Entry) {
	if e.ID == "" {
		e.ID = l.ids()
	}
	if e.Trace == "" {
		e.Trace, _ = trace.From(ctx)
	}
	if e.Execution == "" {
		e.Execution = trace.Execution(ctx)
	}
	var usage any
	if e.Usage != nil {
		usage = fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`,
			e.Usage.PromptTokens, e.Usage.CompletionTokens, e.Usage.TotalTokens)
	}
	r := redact.From(ctx)
	b.Exec(l.q.Record, e.ID, short(e.Agent, maxName), e.Surface, db.Null(short(e.Skill, maxName)), db.Null(e.SkillID), e.Status,
		cut(Storable(clean(r, e.Input))), cut(Storable(clean(r, e.Output))), db.Null(short(r.Text(e.Error), maxError)),
		usage, db.Null(short(e.Model, maxName)),
		e.CostUSD, e.Duration.Milliseconds(),
		e.Trace, db.Null(e.Execution), db.Null(e.ParentExecution), db.Null(e.Attempt), db.Null(e.Thread))
}

func clean(r *redact.Redactor, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	return r.JSON(raw)
}

// Write records an action that belongs to no other change.
func (l *Log) Write(ctx context.Context, ws db.Workspace, e Entry) error {
	var b db.Batch
	l.Record(ctx, &b, e)
	if err := l.db.Do(ctx, ws, &b); err != nil {
		return fmt.Errorf("record activity: %w", err)
	}
	return nil
}
