package resilient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// ErrOpen is the cause of an [llm.Error] for a model that was not asked because its circuit is
// open.
var ErrOpen = errors.New("the circuit is open")

// State is the state of a circuit.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // the model may be asked
	Open     State = "open"      // it failed too often: not asked until RetryAt
	HalfOpen State = "half_open" // one call probes whether the model works again
	// Paused: it rejects our key or bill. It is not asked until a person acts or RetryAt has passed.
	Paused State = "paused"
)

// transitions are the allowed changes of state. A half-open circuit whose probe is lost is probed
// again. A late success of an earlier call closes a circuit in any state.
var transitions = map[State][]State{
	Closed:   {Open, Paused},
	Open:     {HalfOpen, Closed, Paused},
	HalfOpen: {Closed, Open, Paused, HalfOpen},
	Paused:   {HalfOpen, Closed},
}

// Can reports whether a circuit may go from s to next.
func (s State) Can(next State) bool { return slices.Contains(transitions[s], next) }

// Key names a circuit within its workspace.
type Key struct {
	Provider string
	Model    string // as requested; empty: the provider's default
}

// String returns the key as text. [ParseKey] reads it.
func (k Key) String() string { return k.Provider + "/" + k.Model }

// ParseKey parses a key. This is unambiguous, because no provider's name has a slash.
func ParseKey(s string) Key {
	provider, model, _ := strings.Cut(s, "/")
	return Key{provider, model}
}

// Circuit is the state of one circuit.
type Circuit struct {
	Key
	State    State
	Failures int            // consecutive
	Class    llm.ErrorClass // of the last failure
	OpenedAt *time.Time
	RetryAt  *time.Time // when a probe is allowed, or counts as lost
	// RetryIn is the time until RetryAt at the moment of reading, by the database's clock.
	RetryIn time.Duration
}

// refusal returns the error for a call that an open circuit rejects.
func (c Circuit) refusal(provider string, left time.Duration) error {
	class := llm.ClassUnavailable
	if lasting(c.Class) {
		class = c.Class
	}
	return &llm.Error{Class: class, Provider: provider, RetryAfter: left,
		Err: fmt.Errorf("%w: %s, last failure %s", ErrOpen, c.State, c.Class)}
}

// lasting reports whether failures of the class last until a person acts.
func lasting(c llm.ErrorClass) bool {
	return c == llm.ClassAuthentication || c == llm.ClassBilling
}

// Circuits stores circuits. [Store] implements it with the database.
type Circuits interface {
	// Load returns the circuits of the keys. Unknown ones are closed.
	Load(ctx context.Context, ws db.Workspace, keys []Key) ([]Circuit, error)
	// LoadIn is Load in a batch. read is called after the batch was sent.
	LoadIn(b *db.Batch, keys []Key) (read func() []Circuit)
	// Failed counts a failed try and returns the updated circuit. wait is what the provider asked
	// for.
	Failed(ctx context.Context, ws db.Workspace, key Key, class llm.ErrorClass, wait time.Duration) (Circuit, error)
	// Succeeded closes the circuit, together with what also adds to the batch; it may be nil.
	Succeeded(ctx context.Context, ws db.Workspace, key Key, also func(*db.Batch)) error
	// Claim reports whether the caller may probe. The probe counts as lost if the lease ends
	// without a result.
	Claim(ctx context.Context, ws db.Workspace, key Key, lease time.Duration) (bool, error)
	// GiveBack releases a probe that ended without a result.
	GiveBack(ctx context.Context, ws db.Workspace, key Key) error
}
