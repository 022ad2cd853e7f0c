//go:build !faults

// Package fault names the places where a process may die, and the effects it
// has on the world, so that a test can kill it exactly there and count what
// it did.
//
// The product calls [Point] at each place where being cut off matters: after a
// claim and before the work, after an effect and before its record. A test
// decides what happens there: go on, be killed, be frozen, or fail. It calls
// [Effect] next to each thing that cannot be taken back, so that an observer
// outside the process can say "once", "twice" or "never".
//
// Without the build tag "faults", which is how everything is shipped, both
// functions are empty and the compiler inlines them to nothing. With the tag
// they speak to the fault driver of infra/rig.
package fault

import "context"

// Point marks a place where a test may interrupt the process. The name says
// which place it is ("task.claimed"), the key which unit of work has come to
// it. An error must be treated as if the operation next to the point had
// failed.
func Point(ctx context.Context, name, key string) error { return nil }

// Effect tells the ledger that the effect of this name has happened for the
// key. The key alone says what may happen only once, so effects of different
// kinds need different keys.
func Effect(ctx context.Context, name, key string) {}
