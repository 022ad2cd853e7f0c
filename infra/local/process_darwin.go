package main

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hostIdentity returns the id of the host's current boot. All processes of a Mac share one namespace of
// process ids.
func hostIdentity() (boot, space string, ok bool) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	boot = strings.ToLower(strings.ReplaceAll(id, "-", ""))
	return boot, "0", err == nil && boot != ""
}

// look returns whether a process runs, and its start time.
func look(pid int) (started string, s state) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", gone
	}
	found, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(found.Proc.P_pid) != pid {
		return "", hidden
	}
	const stopped = 5 // SZOMB: it has died, but its parent has not reaped it
	if found.Proc.P_stat == stopped {
		return "", gone
	}
	at := found.Proc.P_starttime
	return strconv.FormatInt(at.Sec*1_000_000+int64(at.Usec), 36), alive
}
