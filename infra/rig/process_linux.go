package rig

import "syscall"

// processAttributes puts a process into its own process group. The kernel ends it if the test dies
// without closing its functions.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended. It does not reap the process, so that its id is not
// reused yet.
func (p *process) awaitExit() { waitid(p.pid, syscall.WEXITED|syscall.WNOWAIT) }

// awaitStop returns when all threads of the process have stopped, or when it has ended. It returns
// at once for a process that is not a child, since only a child can be waited for.
func awaitStop(pid int) { waitid(pid, syscall.WSTOPPED|syscall.WEXITED|syscall.WNOWAIT) }

// waitid calls waitid(2) for one process and drops the information it returns.
func waitid(pid, options int) {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, uintptr(options), 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
