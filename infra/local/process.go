package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// A process is what tells one process of all there are from another. Space and Boot are
// empty where the system doesn't tell them: then nothing is known of other processes.
type process struct {
	host    string
	pid     int
	boot    string // of the host's present start
	space   string // in which process ids are counted
	started string // since the boot
}

// self is this process.
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

// String names the process in the holders of lanes, in a form that [dead] reads.
func (p process) String() string {
	if p.boot == "" {
		return fmt.Sprintf("%s-%d", p.host, p.pid)
	}
	return fmt.Sprintf("%s-%d@%s.%s.%s", p.host, p.pid, p.boot, p.space, p.started)
}

// state is what is known of the process with an id.
type state int

const (
	hidden state = iota // nothing
	alive
	gone
)

// named finds the name of a process in a holder.
var named = regexp.MustCompile(`(?:^|[/ ])([^/ ]{1,60})-([0-9]+)@([0-9a-f]+)\.([0-9a-z]+)\.([0-9a-z]+)(?:$|/)`)

// processOf is the process that a holder names; false: none, or one of a system that
// doesn't tell enough.
func processOf(holder string) (p process, ok bool) {
	m := named.FindStringSubmatch(holder)
	if m == nil {
		return p, false
	}
	pid, err := strconv.Atoi(m[2])
	return process{host: m[1], pid: pid, boot: m[3], space: m[4], started: m[5]}, err == nil && pid > 0
}

// dead reports whether a holder is a process that has certainly died: one of this
// start of this host, in this space of process ids, where none with its id runs, or one
// that was started at another time. Of all others, those in another container for
// example, nothing is known.
func (p process) dead(holder string) bool {
	other, ok := processOf(holder)
	if !ok || p.boot == "" || other.host != p.host || other.boot != p.boot || other.space != p.space {
		return false
	}
	started, state := look(other.pid)
	return state == gone || state == alive && started != other.started
}
