package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// How long a server may take to answer after its start, and to end after its stop signal.
const (
	startLimit = time.Minute
	stopLimit  = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// Mode is how a server is stopped.
type Mode int

const (
	// Clean lets the server finish its work: PostgreSQL ends its sessions and writes a checkpoint.
	Clean Mode = iota
	// Immediate is a crash: PostgreSQL recovers from its log at the next start.
	Immediate
)

// A Server is a private server process. It keeps its address over restarts. It is safe for
// concurrent use.
type Server struct {
	URL string
	Dir string // its files, including the log

	kind kind
	home home
	port int

	mu   sync.Mutex
	proc *process // the process started last; nil before
}

// kind is what differs between the kinds of servers.
type kind struct {
	name    string
	url     func(port int) string
	command func(port int) ([]string, error)            // also writes the configuration
	probe   func(ctx context.Context, url string) error // returns nil once the server answers

	stop   [2]syscall.Signal // by Mode
	orphan syscall.Signal    // sent by the kernel when this process dies
}

// open starts a new server in its home. Another program may take the free port before the server
// does; therefore it tries three times.
func open(ctx context.Context, k kind, h home) (*Server, error) {
	s := &Server{Dir: h.dir, kind: k, home: h}
	for try := 1; ; try++ {
		var err error
		if s.port, err = freePort(ctx); err == nil {
			s.URL = k.url(s.port)
			err = s.Start(ctx)
		}
		if err == nil {
			return s, nil
		}
		if try == 3 || !errors.Is(err, errEnded) {
			return nil, errors.Join(err, s.Close())
		}
	}
}

// freePort returns a port on which nobody listens, below the kernel's range for outgoing
// connections (32768 and up on Linux, 49152 and up on macOS).
func freePort(ctx context.Context) (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(10000)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free loopback port between 20000 and 30000")
}

// LogPath returns the file with all output of the server.
func (s *Server) LogPath() string { return filepath.Join(s.Dir, s.kind.name+".log") }

// Start starts the server again after Stop, or after it ended by itself, and waits until it
// answers. It does nothing when the server runs. The context bounds only the wait. After an error
// the server is not running.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc.running() {
		return nil
	}
	argv, err := s.kind.command(s.port)
	if err != nil {
		return fmt.Errorf("configure %s: %w", s.kind.name, err)
	}
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor

	cmd := s.home.command(context.WithoutCancel(ctx), argv...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd.SysProcAttr, s.kind.orphan)
	if s.proc, err = spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.kind.name, err)
	}
	if err := s.ready(ctx); err != nil {
		s.proc.end(s.kind.stop[Immediate])
		return fmt.Errorf("start %s: %w\n%s", s.kind.name, err, s.logTail())
	}
	return nil
}

// errEnded means that a server ended before it answered.
var errEnded = errors.New("it ended at once")

func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("no answer within %s", startLimit))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := s.kind.probe(ctx, s.URL)
		if !s.proc.running() {
			return errEnded
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// ErrKilled means that a server did not end in time and was killed.
var ErrKilled = errors.New("it had to be killed")

// Stop ends the server and waits for its end. It kills a server that does not end within 15
// seconds, and returns [ErrKilled]. It does nothing when the server is stopped.
func (s *Server) Stop(mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.proc.running() {
		return nil
	}
	if !s.proc.end(s.kind.stop[mode]) {
		return fmt.Errorf("stop %s: %w", s.kind.name, ErrKilled)
	}
	return nil
}

// Freeze stops the server's process, without its clients noticing, until Thaw. It does nothing when the
// server is stopped.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.proc.running() {
		return nil
	}
	return s.proc.cmd.Process.Signal(sig)
}

// Restart is Stop and Start, with the same address and data.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	if err := s.Stop(mode); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Close ends the server at once, and removes Dir if it is temporary. It may be called again.
func (s *Server) Close() error {
	stopped := s.Stop(Immediate)
	if errors.Is(stopped, ErrKilled) {
		stopped = nil // it is gone
	}
	return errors.Join(stopped, s.home.remove())
}

// logTail returns the end of the log, for an error.
func (s *Server) logTail() []byte {
	log, err := os.ReadFile(s.LogPath())
	if err != nil {
		return []byte(err.Error())
	}
	return tail(log)
}

// tail returns the last 2,000 bytes of a program's output.
func tail(out []byte) []byte {
	return bytes.TrimSpace(out[max(0, len(out)-2000):])
}
