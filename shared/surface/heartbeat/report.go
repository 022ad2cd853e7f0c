package heartbeat

import (
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Tick is one delivery of the schedule, or a person's request for a beat by hand.
type Tick struct {
	// Workspace is the workspace that beats. Empty means every workspace whose slot is due.
	Workspace db.Workspace
	// Slot is the scheduled time of the beat, and its idempotency key: a slot runs once, however
	// often it is delivered. The zero time means a beat by hand, which always runs.
	Slot time.Time
	// Full runs every phase even if there is no work.
	Full bool
	// Wait is how long a beat by hand waits for its lane and for the end of a turn in operate. Zero
	// skips the beat at once.
	Wait time.Duration
	// ExecutionID and Trace identify the beat before it begins, for callers that respond first.
	// Empty ones are generated. A resumed beat keeps its own.
	ExecutionID string
	Trace       trace.ID
	// Begun is closed when the execution is stored; nil: no caller waits for it.
	Begun chan struct{} `json:"-"`
}

// Outcome says how a tick ended.
type Outcome string

// The outcomes. The schedule treats all of them as successes.
const (
	// Completed: the phases ran. Left counts the work that did not fit.
	Completed Outcome = "completed"
	// Idle: there was no work, and no model was called.
	Idle Outcome = "idle"
	// Parked: the deadline, a cap, or a person who needs the lane ended the beat early. The next
	// beat continues.
	Parked Outcome = "parked"
	// Skipped: the lane is held, or a person works in operate. PutOffTo says when a scheduled beat
	// is tried again.
	Skipped Outcome = "skipped"
	// Duplicate: this slot or a later one was run.
	Duplicate Outcome = "duplicate"
	// Lost: another process took the lane. The beat wrote nothing after that.
	Lost Outcome = "lost"
	// Fanned: each workspace's beat was handed to an invocation of its own.
	Fanned Outcome = "fanned_out"
)

// A Report is the response of a beat and the output of its activity.
type Report struct {
	Outcome     Outcome `json:"outcome"`
	Workspace   string  `json:"workspace,omitempty"`
	ExecutionID string  `json:"executionId,omitempty"`
	TraceID     string  `json:"traceId,omitempty"`
	Slot        string  `json:"slot,omitempty"`
	// Pace is THROTTLE or STOP when budgets slowed the beat down; then it left out phases.
	Pace       budget.Pace `json:"pace,omitempty"`
	Reason     string      `json:"reason,omitempty"` // of a skip, a duplicate or a parked beat
	Holder     string      `json:"holder,omitempty"` // the holder of the lane, when skipped
	PutOffTo   *time.Time  `json:"putOffTo,omitempty" doc:"When the beat is tried again, where a person's turn was in its way"`
	Phases     []Phase     `json:"phases"`
	Tokens     int64       `json:"tokens"`
	CostUSD    float64     `json:"costUsd"`
	DurationMS int64       `json:"durationMs"`
	Left       int         `json:"left"` // pieces of work left for the next beat
	Alerts     []string    `json:"alerts,omitempty" doc:"What a person is needed for"`
	Workspaces []Report    `json:"workspaces,omitempty"`
}

// A Phase counts what one phase of a beat did.
type Phase struct {
	Name       string  `json:"name"`
	Considered int     `json:"considered"`
	Done       int     `json:"done"`
	Failed     int     `json:"failed"`
	Left       int     `json:"left"`
	ModelCalls int     `json:"modelCalls"`
	Tokens     int64   `json:"tokens"`
	CostUSD    float64 `json:"costUsd"`
	DurationMS int64   `json:"durationMs"`

	// Text is the answer of a reflection.
	Text string `json:"text,omitempty"`

	healed   *heal.Report
	microUSD int64 // the exact value of CostUSD
}
