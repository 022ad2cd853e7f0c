//go:build unix && !linux

package rig

import "syscall"

// processAttributes puts a process into its own process group.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns when the process has ended.
func (p *process) awaitExit() { p.cmd.Wait() }

// awaitStop returns at once. The process stops soon after.
func awaitStop(int) {}
