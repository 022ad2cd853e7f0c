// Package network tests the product under network failures. The product runs in this process, wired
// like the functions. The network loses or swallows requests and responses at every point of a
// work, and clients disconnect.
//
// The tests judge by evidence from outside of the product: by a receiver that counts every effect
// by its key, and by the tables.
package network
