package endpoint

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// The events that endpoints can be told of.
const (
	TaskStatusChanged   = "task.status_changed"
	TaskDependencyCycle = "task.dependency_cycle"
	AgentStale          = "agent.stale"
	BudgetWarning       = "budget.warning"
	BudgetExhausted     = "budget.exhausted"
	ApprovalRequested   = "approval.requested"
	LaneWaitWarning     = "lane.wait_warning"
	HeartbeatCompleted  = "heartbeat.completed"
	// All stands for every event, also for those to come.
	All = "*"
)

var events = []string{
	TaskStatusChanged, TaskDependencyCycle, AgentStale, BudgetWarning, BudgetExhausted, ApprovalRequested, LaneWaitWarning, HeartbeatCompleted,
}

// Events lists the events that endpoints can be told of.
func Events() []string { return slices.Clone(events) }

// CheckEvents validates a filter of events, and returns it sorted and without duplicates. The error
// is a [problem.InvalidError] of field.
func CheckEvents(field string, of []string) ([]string, error) {
	bad := &problem.InvalidError{}
	bad.If(len(of) == 0, field, "must name an event at least, or *")
	for _, name := range of {
		bad.If(name != All && !slices.Contains(events, name), field, "must be * or some of "+strings.Join(events, ", "))
	}
	if slices.Contains(of, All) {
		return []string{All}, bad.OrNil()
	}
	return slices.Compact(slices.Sorted(slices.Values(of))), bad.OrNil()
}

// The following values limit a workspace and an endpoint.
const (
	MaxEndpoints   = 20 // per workspace
	maxDescription = 1000
)

var (
	// ErrNotFound says that there is no such endpoint.
	ErrNotFound = errors.New("there is no such webhook endpoint")
	// ErrNoDelivery says that there is no such delivery.
	ErrNoDelivery = errors.New("there is no such delivery")
	// ErrChanged says that someone else changed the endpoint after it was read.
	ErrChanged = errors.New("the webhook endpoint has been changed meanwhile")
	// ErrFull says that the workspace has [MaxEndpoints] endpoints.
	ErrFull = errors.New("the workspace has as many webhook endpoints as it may")
	// ErrDisabled says that nothing is sent to an endpoint until a person enables it.
	ErrDisabled = errors.New("the webhook endpoint is disabled: enable it first")
)

// Endpoint is a receiver of events.
type Endpoint struct {
	ID          string
	URL         string
	Events      []string // names, or only [All]
	Description string
	// Challenge says that a URL must have answered the ownership challenge before anything else is
	// sent to it.
	Challenge bool
	Enabled   bool
	// DisabledReason says why Lanekeeper disabled it. It is empty if a person did.
	DisabledReason string
	Failures       int        // failed attempts since the last success
	FailingSince   *time.Time // the first of them
	// OldUntil is when the previous secret expires; nil: there is none.
	OldUntil  *time.Time
	Version   int // counts changes by people
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time

	sealed [][]byte
}

// check validates an endpoint, except for what its URL leads to, and reports all problems in one
// [problem.InvalidError].
func (e *Endpoint) check() error {
	bad := &problem.InvalidError{}
	if wrong, is := errors.AsType[*problem.InvalidError](channel.Check(channel.NameHTTP, e.URL)); is {
		bad.If(true, "url", wrong.Fields[0].Problem)
	}
	filter, err := CheckEvents("events", e.Events)
	if wrong, is := errors.AsType[*problem.InvalidError](err); is {
		bad.If(true, "events", wrong.Fields[0].Problem)
	}
	e.Events = filter
	bad.If(utf8.RuneCountInString(e.Description) > maxDescription || !utf8.ValidString(e.Description), "description", "may have 1,000 characters at most")
	return bad.OrNil()
}

const secretPrefix = "whsec_"

// NewSecret generates a signing secret.
func NewSecret() secret.Value {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return secret.NewValue(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// keyOf decodes a signing secret.
func keyOf(v secret.Value) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(v.Reveal(), secretPrefix))
	if err != nil || len(key) == 0 {
		return nil, errors.New("the secret of the webhook endpoint is damaged")
	}
	return key, nil
}
