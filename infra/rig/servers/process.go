package servers

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a started program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and was reaped
}

// spawn starts cmd in its own process group.
//
// On Linux the signal for the parent's death is tied to the thread that forked, not to the parent
// process. So one goroutine, locked to its thread, both starts the program and waits for its end.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a server ended by a signal is no error
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends sig, waits for the end, and reports whether sig was sufficient.
func (p *process) end(sig syscall.Signal) bool {
	_ = p.cmd.Process.Signal(sig) // fails only when the program has ended already
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.done:
		return true
	case <-limit.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return false
	}
}
