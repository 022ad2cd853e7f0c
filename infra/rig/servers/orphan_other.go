//go:build !linux

package servers

import "syscall"

// dieWithParent does nothing: only Linux supports it. Elsewhere the servers of a killed test run
// must be ended by hand.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
