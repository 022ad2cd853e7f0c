//go:build unix && !linux

package rig

import "syscall"

// processAttributes put a process in a group of its own.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns when the process has ended.
func (p *process) awaitExit() { p.cmd.Wait() }

// awaitStop does not wait: the process stops soon after.
func awaitStop(int) {}
