package heartbeat

import (
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// A Tick is one delivery of the schedule, or a wish for a beat by hand.
type Tick struct {
	// Workspace to beat for; empty means every one that is due.
	Workspace db.Workspace
	// Slot is the time the beat was scheduled for and its key: a slot runs once,
	// however often it is delivered. Zero is a beat by hand, which always runs.
	Slot time.Time
	// Full runs every phase even when there is nothing to do.
	Full bool
	// Wait is how long a beat by hand waits for its lane, and for the end of a turn in
	// operate; zero skips at once.
	Wait time.Duration
	// ExecutionID and Trace name the beat before it begins, for callers that
	// answer first; empty ones are made. A beat that was cut off goes on under its own.
	ExecutionID string
	Trace       trace.ID
	// Begun is closed once the execution stands in the database; nil: nobody waits for it.
	Begun chan struct{} `json:"-"`
}

// Outcome says how a tick ended.
type Outcome string

// The outcomes. All of them are successes to the schedule.
const (
	// Completed: the phases ran; what did not fit is counted in Left.
	Completed Outcome = "completed"
	// Idle: there was nothing to do, and no model was called.
	Idle Outcome = "idle"
	// Parked: the deadline, a cap, or a person who needs the lane ended the beat
	// early; the next one goes on.
	Parked Outcome = "parked"
	// Skipped: the lane is taken, or a person works in operate; PutOffTo says when a
	// scheduled beat is tried again.
	Skipped Outcome = "skipped"
	// Duplicate: the slot has been run, or a later one has.
	Duplicate Outcome = "duplicate"
	// Lost: the lane went to somebody else meanwhile; nothing was written after that.
	Lost Outcome = "lost"
	// Fanned: the tick was handed on, one invocation a workspace.
	Fanned Outcome = "fanned_out"
)

// A Report is the answer of a beat and the output of its activity.
type Report struct {
	Outcome     Outcome    `json:"outcome"`
	Workspace   string     `json:"workspace,omitempty"`
	ExecutionID string     `json:"executionId,omitempty"`
	TraceID     string     `json:"traceId,omitempty"`
	Slot        string     `json:"slot,omitempty"`
	Reason      string     `json:"reason,omitempty"` // of a skip, a duplicate or a parking
	Holder      string     `json:"holder,omitempty"` // who holds the lane, when skipped
	PutOffTo    *time.Time `json:"putOffTo,omitempty" doc:"When the beat is tried again, where a person's turn was in its way"`
	Phases      []Phase    `json:"phases"`
	Tokens      int64      `json:"tokens"`
	CostUSD     float64    `json:"costUsd"`
	DurationMS  int64      `json:"durationMs"`
	Left        int        `json:"left"` // pieces of work left for the next beat
	Alerts      []string   `json:"alerts,omitempty" doc:"What a person is needed for"`
	Workspaces  []Report   `json:"workspaces,omitempty"`
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

	// Text is what a reflection came to.
	Text string `json:"text,omitempty"`

	healed   *heal.Report
	microUSD int64 // that CostUSD is
}
