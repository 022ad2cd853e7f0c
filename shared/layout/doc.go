// Package layout holds the tests of the repository's structure: which package may import which,
// which binary may link what, and which file belongs where. It has no code.
package layout
