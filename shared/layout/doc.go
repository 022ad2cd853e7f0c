// Package layout holds the tests of the repository's shape: which package may
// import which, who may link what, and what stands where. It has no code.
package layout
