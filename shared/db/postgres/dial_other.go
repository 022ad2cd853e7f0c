//go:build !linux

package postgres

import "syscall"

// limitUnacknowledged does nothing, because this system has no such limit. The limit on each answer
// applies instead.
func limitUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
