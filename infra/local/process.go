package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// A process identifies one process among all processes of all hosts. boot and space are empty if
// the system does not report them. Then nothing is known about other processes.
type process struct {
	host    string
	pid     int
	boot    string // id of the host's current boot
	space   string // namespace of process ids
	started string // start time, in the system's units since the boot
}

// self returns this process.
func self() process {
	host, err := os.Hostname()
	if err != nil {
		host = "local"
	}
	p := process{host: fmt.Sprintf("%.60s", host), pid: os.Getpid()}
	boot, space, ok := hostIdentity()
	started, state := look(p.pid)
	if ok && state == alive {
		p.boot, p.space, p.started = boot[:min(16, len(boot))], space, started
	}
	return p
}

// String returns the name of the process for the holders of lanes. [process.dead] parses this form.
func (p process) String() string {
	if p.boot == "" {
		return fmt.Sprintf("%s-%d", p.host, p.pid)
	}
	return fmt.Sprintf("%s-%d@%s.%s.%s", p.host, p.pid, p.boot, p.space, p.started)
}

// state is what is known about the process with an id.
type state int

const (
	hidden state = iota // unknown
	alive
	gone
)

// named matches the name of a process in a holder.
var named = regexp.MustCompile(`(?:^|[/ ])([^/ ]{1,60})-([0-9]+)@([0-9a-f]+)\.([0-9a-z]+)\.([0-9a-z]+)(?:$|/)`)

// processOf returns the process that a holder names. ok is false if the holder names none, or one
// of a system that reports too little.
func processOf(holder string) (p process, ok bool) {
	m := named.FindStringSubmatch(holder)
	if m == nil {
		return p, false
	}
	pid, err := strconv.Atoi(m[2])
	return process{host: m[1], pid: pid, boot: m[3], space: m[4], started: m[5]}, err == nil && pid > 0
}

// dead reports whether a holder is a process that has certainly died. The holder must be from the
// current boot of this host and from this namespace of process ids. It is dead if no process runs
// with its id, or if that process has another start time. Nothing is known about other holders,
// such as processes in another container.
func (p process) dead(holder string) bool {
	other, ok := processOf(holder)
	if !ok || p.boot == "" || other.host != p.host || other.boot != p.boot || other.space != p.space {
		return false
	}
	started, state := look(other.pid)
	return state == gone || state == alive && started != other.started
}
