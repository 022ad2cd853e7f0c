//go:build !linux

package postgres

import "syscall"

// limitUnacknowledged does nothing where the system has no such limit: the limit on each
// answer stands in.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
