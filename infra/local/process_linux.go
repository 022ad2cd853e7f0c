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

// hostIdentity is the host's present start, and the namespace of process ids of this process.
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

// look says whether a process runs, and when it was started.
func look(pid int) (started string, s state) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", gone
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", hidden // another user's, which may be hidden, or it ends just now
	}
	// The name, in parentheses, may hold anything; the state follows, and as the 20th the start.
	_, rest, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 20 {
		return "", hidden
	}
	if tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); fields[0] == "Z" && err == nil && len(tasks) <= 1 {
		return "", gone // it has died, and whoever started it has not asked after it
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", hidden
	}
	return strconv.FormatUint(ticks, 36), alive
}
