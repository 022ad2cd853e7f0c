// Package app puts the parts together: the configuration, the core that every
// surface stands on, and one plain function per surface, so that the linker drops
// what a function does not use. The mains, package edge and the local runner call
// it; it knows no AWS and no SQLite.
package app
