// Package approval keeps the calls of skills that wait for a person, lets one
// decide on them, and makes those that were approved: once, with what was stored.
//
// A call is stored in the transaction that records that it waits. Approving it
// writes the decision, its line in the activity log and a kick in the outbox in
// one transaction; [Executor] handles the kick. What an approval binds, skill,
// arguments, execution, call and expiry, is held by a digest. Who does not answer
// in time has denied.
package approval

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Status is where an approval is in its life.
type Status string

// The statuses of an approval.
const (
	Pending  Status = "pending"
	Approved Status = "approved" // its call is to be made
	Rejected Status = "rejected"
	Expired  Status = "expired"  // nobody answered
	Executed Status = "executed" // its call was made, or can't be; Error says what went wrong
)

// transitions are the legal changes of status; what is not here is refused.
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
	Arguments json.RawMessage // of the call, as they were asked for
	Digest    string          // of what the approval binds
	Why       string          // it waits
	Execution string          // that asked
	Call      string          // its place there: "3.1"
	Subject   lane.Name       // of the execution
	Agent     string
	Surface   trace.Surface
	Trace     trace.ID
	Untrusted bool // the execution had read text from outside when it asked
	// Status is expired as soon as its time is over, whether that was noted or not.
	Status      Status
	Reason      string // it was rejected
	Edited      json.RawMessage
	Result      json.RawMessage
	Error       string
	RequestedAt time.Time
	ExpiresAt   time.Time
	DecidedAt   *time.Time
	DecidedBy   string
	StartedAt   *time.Time // a call with an effect outside began
	ExecutedAt  *time.Time
}

// Input is what the call is made with: the arguments as they were edited, or asked
// for.
func (a Approval) Input() json.RawMessage {
	if len(a.Edited) > 0 {
		return a.Edited
	}
	return a.Arguments
}

// Key is the key of the call's effect, and of its row in the outbox.
func Key(id string) string { return "approval:" + id }

// Lane is the lane of whoever makes an approved call.
func Lane(id string) lane.Name { return lane.Name("approval:" + id) }

func collect(into *[]Approval) func(db.Scan) error {
	return func(scan db.Scan) error {
		var a Approval
		var skillID, why, subject, reason, message, by *string
		if err := scan(&a.ID, &a.Skill, &skillID, &a.Arguments, &a.Digest, &why, &a.Execution, &a.Call, &subject, &a.Agent, &a.Surface, &a.Trace,
			&a.Status, &reason, &a.Edited, &a.Result, &message, &a.RequestedAt, &a.ExpiresAt, &a.DecidedAt, &by, &a.StartedAt, &a.ExecutedAt, &a.Untrusted); err != nil {
			return err
		}
		a.SkillID, a.Why, a.Subject, a.Reason = value(skillID), value(why), lane.Name(value(subject)), value(reason)
		a.Error, a.DecidedBy = value(message), value(by)
		*into = append(*into, a)
		return nil
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
