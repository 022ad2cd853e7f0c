//go:build !faults

// Package fault names the places where a process may die, and the effects it
// has on the world, so that a test can kill it exactly there and count what
// it did.
//
// The product calls [Point] at each place where an interruption matters: after a claim and before
// the work, after an effect and before its record. A test decides what happens there: the process
// continues, is killed, is frozen, or fails. The product calls [Effect] next to each effect that
// can't be undone, so that an observer outside the process can count it: once, twice or never.
//
// Without the build tag "faults", as in every shipped build, both functions are empty and the
// compiler inlines them to nothing. With the tag they call the fault driver of infra/rig.
package fault

import "context"

// Point marks a place where a test may interrupt the process. name identifies the place
// ("task.claimed"), key the unit of work. Callers must treat an error as if the operation next to
// the point had failed.
func Point(ctx context.Context, name, key string) error { return nil }

// Effect tells the ledger that the effect name has happened for key. The key alone identifies what
// may happen only once, so effects of different kinds need different keys.
func Effect(ctx context.Context, name, key string) {}
