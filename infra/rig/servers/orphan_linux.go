package servers

import "syscall"

// dieWithParent asks the kernel to send sig when the thread that starts the
// program ends (see spawn).
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
