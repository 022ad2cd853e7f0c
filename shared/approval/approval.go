// Package approval stores calls of skills that wait for a person, records the person's decision,
// and makes the approved calls. It makes each of them once, with the arguments that were stored.
//
// A call is stored in the transaction that records that it waits. An approval writes the decision,
// its line in the activity log and a kick in the outbox in one transaction. [Executor] handles the
// kick. A digest protects what an approval is for: skill, arguments, execution, call and expiry. An
// approval that nobody decides in time expires, and its call is not made.
package approval

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Status is the status of an approval.
type Status string

// The statuses of an approval.
const (
	Pending  Status = "pending"
	Approved Status = "approved" // its call will be made
	Rejected Status = "rejected"
	Expired  Status = "expired"  // nobody decided in time
	Executed Status = "executed" // its call was made, or can't be made; Error says what went wrong
)

// transitions are the allowed changes of status.
var transitions = map[Status][]Status{
	Pending:  {Approved, Rejected, Expired},
	Approved: {Executed},
}

// Can reports whether an approval may go from s to next.
func (s Status) Can(next Status) bool { return slices.Contains(transitions[s], next) }

// Approval is one row.
type Approval struct {
	ID        string
	Skill     string // its name
	SkillID   string
	Arguments json.RawMessage // of the call, as requested
	Digest    string          // of what the approval is for
	Why       string          // why the call waits
	Execution string          // that made the request
	Call      string          // its position in the execution: "3.1"
	Subject   lane.Name       // of the execution
	Agent     string
	Surface   trace.Surface
	Trace     trace.ID
	Untrusted bool // the execution had read untrusted text before it made the request
	// Status is Expired as soon as ExpiresAt has passed, even if the row does not say so yet.
	Status      Status
	Reason      string // why it was rejected
	Edited      json.RawMessage
	Result      json.RawMessage
	Error       string
	RequestedAt time.Time
	ExpiresAt   time.Time
	DecidedAt   *time.Time
	DecidedBy   string
	StartedAt   *time.Time // when a call with an external effect began
	ExecutedAt  *time.Time
}

// Input returns the arguments of the call to make: the edited ones, or else the requested ones.
func (a Approval) Input() json.RawMessage {
	if len(a.Edited) > 0 {
		return a.Edited
	}
	return a.Arguments
}

// Key returns the idempotency key of the call's effect. It is also the key of its row in the
// outbox.
func Key(id string) string { return "approval:" + id }

// Lane returns the lane that is held while an approved call is made.
func Lane(id string) lane.Name { return lane.Name("approval:" + id) }

func collect(into *[]Approval) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, a *Approval) error {
		return scan(&a.ID, &a.Skill, db.Optional(&a.SkillID), &a.Arguments, &a.Digest, db.Optional(&a.Why), &a.Execution, &a.Call,
			db.Optional(&a.Subject), &a.Agent, &a.Surface, &a.Trace, &a.Status, db.Optional(&a.Reason), &a.Edited, &a.Result,
			db.Optional(&a.Error), &a.RequestedAt, &a.ExpiresAt, &a.DecidedAt, db.Optional(&a.DecidedBy), &a.StartedAt, &a.ExecutedAt,
			&a.Untrusted)
	})
}
