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

// ErrOpen is the cause of an [llm.Error] for a model that was not asked because its
// circuit is open.
var ErrOpen = errors.New("the circuit is open")

// State is where a circuit is.
type State string

// The states of a circuit.
const (
	Closed   State = "closed"    // the model is asked
	Open     State = "open"      // it failed too often: not asked until a while has passed
	HalfOpen State = "half_open" // one call finds out whether it is back
	Paused   State = "paused"    // it does not want us: not asked until a person acts, or a longer while has passed
)

// transitions are the ways that circuits go. A half-open one whose probe is lost is
// probed again. A late answer to a call from before closes any of them.
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
	Model    string // as it is asked for; empty: the provider's default
}

// String is the key in one piece, which [ParseKey] reads.
func (k Key) String() string { return k.Provider + "/" + k.Model }

// ParseKey reads a key: no provider's name has a slash.
func ParseKey(s string) Key {
	provider, model, _ := strings.Cut(s, "/")
	return Key{provider, model}
}

// Circuit is what is known of one.
type Circuit struct {
	Key
	State    State
	Failures int            // in a row
	Class    llm.ErrorClass // of the last failure
	OpenedAt *time.Time
	RetryAt  *time.Time // when a probe is let through, or counts as lost
	// RetryIn is how far away RetryAt was when the circuit was read, by the
	// database's clock.
	RetryIn time.Duration
}

// refusal is the error for a call that an open circuit keeps from its model.
func (c Circuit) refusal(provider string, left time.Duration) error {
	class := llm.ClassUnavailable
	if lasting(c.Class) {
		class = c.Class
	}
	return &llm.Error{Class: class, Provider: provider, RetryAfter: left, Err: fmt.Errorf("%w: %s, last failure %s", ErrOpen, c.State, c.Class)}
}

// lasting reports whether a person has to act before a failure of the class passes.
func lasting(c llm.ErrorClass) bool {
	return c == llm.ClassAuthentication || c == llm.ClassBilling
}

// Circuits keeps circuits. [Store] does, in the database.
type Circuits interface {
	// Load gives the circuits of the keys, closed ones where nothing is known.
	Load(ctx context.Context, ws db.Workspace, keys []Key) ([]Circuit, error)
	// Failed counts a failed try and tells what became of the circuit. wait is what
	// the provider asked for.
	Failed(ctx context.Context, ws db.Workspace, key Key, class llm.ErrorClass, wait time.Duration) (Circuit, error)
	// Succeeded closes the circuit.
	Succeeded(ctx context.Context, ws db.Workspace, key Key) error
	// Claim reports whether the caller is the one to probe. The probe counts as lost
	// when nothing was heard of it for as long as lease says.
	Claim(ctx context.Context, ws db.Workspace, key Key, lease time.Duration) (bool, error)
	// GiveBack returns a probe that has found nothing out.
	GiveBack(ctx context.Context, ws db.Workspace, key Key) error
}
