package rig

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// process is a child in its own process group. Signals go to the whole group, and only while the
// child is not reaped: afterwards its id may belong to another process.
type process struct {
	cmd *exec.Cmd
	pid int

	control sync.Mutex // held while the process is being frozen or thawed
	mu      sync.Mutex // guards gone
	gone    bool       // it has ended, and its id may be reused at any time
}

// wait returns when the process has ended and is reaped. It also kills all processes that are left
// in its group.
func (p *process) wait() *os.ProcessState {
	p.awaitExit()
	p.mu.Lock()
	p.gone = true
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // fails if the group is empty
	p.mu.Unlock()
	_ = p.cmd.Wait() // its error repeats the process state
	return p.cmd.ProcessState
}

func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = syscall.Kill(-p.pid, sig) // a child of ours: fails only while it is ending
	}
}

// kill sends SIGKILL, which also ends a frozen process.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// freeze stops the process and returns when it has stopped or ended.
func (p *process) freeze() {
	p.control.Lock()
	defer p.control.Unlock()
	p.signal(syscall.SIGSTOP)
	awaitStop(p.pid)
}

// thaw continues the process. It does nothing if the process runs.
func (p *process) thaw() {
	p.control.Lock()
	defer p.control.Unlock()
	p.signal(syscall.SIGCONT)
}

// wasKilled reports whether a process was ended by SIGKILL.
func wasKilled(exit *os.ProcessState) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// spawner starts processes. On Linux they must die with the test, and the kernel ties that to the
// thread that started them. So a spawner has one thread and keeps it until its processes have
// ended.
type spawner struct {
	jobs    chan func()
	stopped chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), stopped: make(chan struct{})}
	go func() {
		defer close(s.stopped)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// start runs the program with exactly this environment. Both of its outputs go to the file.
func (s *spawner) start(path string, env []string, output *os.File) (*process, error) {
	cmd := exec.CommandContext(context.Background(), path) // the sandbox ends it
	cmd.Dir = filepath.Dir(path)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = processAttributes()
	failed := make(chan error, 1)
	s.jobs <- func() { failed <- cmd.Start() }
	if err := <-failed; err != nil {
		return nil, err
	}
	return &process{cmd: cmd, pid: cmd.Process.Pid}, nil
}

// stop ends the spawner. All its processes must have ended.
func (s *spawner) stop() {
	close(s.jobs)
	<-s.stopped
}

// logFile receives the output of a process. It is a file and not a pipe, so that everything that a
// process wrote before it asked for work or died can be read at that moment.
type logFile struct{ file *os.File }

// newLogFile creates a file in dir and removes its name at once. The file is deleted when its last
// user closes it.
func newLogFile(dir string) (*logFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &logFile{file}, nil
}

// size returns the number of bytes written; 0 for a closed file.
func (l *logFile) size() int64 {
	info, err := l.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// from returns the bytes from the offset on.
func (l *logFile) from(offset int64) []byte {
	// a local file; a failure cannot be handled
	text, _ := io.ReadAll(io.NewSectionReader(l.file, offset, l.size()-offset))
	return text
}

func (l *logFile) close() { _ = l.file.Close() }
