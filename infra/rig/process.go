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

// process is a child in a process group of its own. Signals go to the whole
// group, and never to a process id that may belong to somebody else by now.
type process struct {
	cmd *exec.Cmd
	pid int

	control sync.Mutex // held while the process is being frozen or thawed
	mu      sync.Mutex // guards gone
	gone    bool       // it has ended, and its id may be used again at any time
}

// wait returns when the process has ended and is reaped, and with it all
// processes it has left behind in its group.
func (p *process) wait() *os.ProcessState {
	p.awaitExit()
	p.mu.Lock()
	p.gone = true
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // fails if nobody is left
	p.mu.Unlock()
	_ = p.cmd.Wait() // its error is the process state once more
	return p.cmd.ProcessState
}

func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = syscall.Kill(-p.pid, sig) // a child of ours: fails only if it is just ending
	}
}

// kill sends SIGKILL, which also ends a process that is frozen.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// freeze stops the process and returns when it stands still or has ended.
func (p *process) freeze() {
	p.control.Lock()
	defer p.control.Unlock()
	p.signal(syscall.SIGSTOP)
	awaitStop(p.pid)
}

// thaw lets the process go on; it does nothing to one that runs.
func (p *process) thaw() {
	p.control.Lock()
	defer p.control.Unlock()
	p.signal(syscall.SIGCONT)
}

// wasKilled reports whether a process ended by SIGKILL.
func wasKilled(exit *os.ProcessState) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// spawner starts processes. On Linux they are to die with the test, and the
// kernel ties that to the thread that started them; so a spawner has one
// thread, and keeps it until its processes have ended.
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

// start runs the program with exactly this environment, and both its outputs
// going to the file.
func (s *spawner) start(path string, env []string, output *os.File) (*process, error) {
	cmd := exec.CommandContext(context.Background(), path) // its end is the sandbox's affair
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

// logFile takes what a process writes. It is a file and not a pipe so that
// what a process has written before it asked for work, or died, is there to
// be read at that moment.
type logFile struct{ file *os.File }

// newLogFile creates a file in dir that has no name and goes with its last
// user.
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

// size returns how much has been written. A file that is closed has nothing.
func (l *logFile) size() int64 {
	info, err := l.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// from returns what has been written from the offset on.
func (l *logFile) from(offset int64) []byte {
	text, _ := io.ReadAll(io.NewSectionReader(l.file, offset, l.size()-offset)) // a local file: nothing to do about a failure
	return text
}

func (l *logFile) close() { _ = l.file.Close() }
