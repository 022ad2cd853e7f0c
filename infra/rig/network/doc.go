// Package network holds the tests of what the network does to the product, which runs
// here as the functions wire it: it loses requests and answers at every point of a work,
// or swallows them, and callers leave.
//
// The verdicts come from outside of the product: from a receiver that counts every effect
// by its key, and from the tables.
package network
