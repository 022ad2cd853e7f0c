//go:build !linux

package servers

import "syscall"

// dieWithParent does nothing: only Linux offers it. Servers of a killed test
// run must be ended by hand here.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
