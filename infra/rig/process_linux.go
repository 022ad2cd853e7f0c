package rig

import "syscall"

// processAttributes put a process in a group of its own, and end it if the
// test dies without having closed its functions.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended, but leaves it to be reaped, so
// that its id is not used again yet.
func (p *process) awaitExit() { waitid(p.pid, syscall.WEXITED|syscall.WNOWAIT) }

// awaitStop returns when all threads of the process stand still, or it has
// ended, or it is not a child of ours, of which one cannot be told.
func awaitStop(pid int) { waitid(pid, syscall.WSTOPPED|syscall.WEXITED|syscall.WNOWAIT) }

// waitid is waitid(2) of one process, without the information it gives.
func waitid(pid, options int) {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, uintptr(options), 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
