package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var digits = regexp.MustCompile(`[0-9]+`)

// hostIdentity returns the id of the host's current boot, and the namespace of process ids of this
// process.
func hostIdentity() (boot, space string, ok bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", false
	}
	link, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	n, nerr := strconv.ParseUint(digits.FindString(link), 10, 64)
	if err != nil || nerr != nil {
		return "", "", false
	}
	boot = strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
	return boot, strconv.FormatUint(n, 36), boot != ""
}

// look returns whether a process runs, and its start time.
func look(pid int) (started string, s state) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", gone
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", hidden // another user's process, which may be hidden, or it is ending
	}
	// The name is in parentheses and may hold anything. After it come the state and, as the 20th
	// field, the start time.
	_, rest, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 20 {
		return "", hidden
	}
	if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); fields[0] == "Z" && err == nil && len(tasks) <= 1 {
		return "", gone // it has died, but its parent has not reaped it
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", hidden
	}
	return strconv.FormatUint(ticks, 36), alive
}
