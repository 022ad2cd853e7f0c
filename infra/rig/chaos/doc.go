// Package chaos tests the built functions on real Postgres under realistic failures. It kills them
// at every named point and at random instants, freezes them past their leases, delivers a tick
// twice, and takes the database away.
//
// The tests judge by evidence from outside of the product: by a table that triggers in the database
// fill with every committed effect, and by the rig's ledger, which counts every run of a skill. The
// work that a function accepted is known from the responses that callers received.
package chaos
