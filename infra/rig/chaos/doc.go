// Package chaos holds the tests that run the built functions on real Postgres
// and do to them what the world does: kill them at every named point and at
// random instants, freeze them past their lease, deliver a tick twice, take the
// database away.
//
// The verdicts come from outside the product: from a table that triggers in the
// database fill with every effect that committed, and from the rig's ledger,
// which counts every run of a skill; what was accepted stands in the answers that callers got.
package chaos
