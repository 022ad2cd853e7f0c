//go:build linux

// Command recording records a newcomer's first minutes: it runs the built local runner in a pseudo
// terminal, creates a task, watches it until it is done, and reads its trace. It writes what the
// terminals showed as an SVG that is readable on a light and on a dark page.
//
//	go run ./infra/rig/recording -o infra/docs/five-minutes.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	out := flag.String("o", "infra/docs/five-minutes.svg", "the `FILE` to write")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := record(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be cancelled
	}
}

const (
	columns = 118
	rows    = 60
	title   = "Compare three suppliers"
)

// session is a directory with the built runner, as a newcomer has it after make.
type session struct {
	dir string
	env []string
}

func record(ctx context.Context, out string) error {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "bin", "lanekeeper"), "./infra/local")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the local runner: %w\n%s", err, said)
	}
	s := session{dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm-256color", "ADDR=127.0.0.1:0", "LLM_PROVIDER=demo"}}
	runner, err := s.start(ctx, "dev")
	if err != nil {
		return err
	}
	defer runner.stop()
	if err := runner.await(ctx, regexp.MustCompile(`done.*Publish the answers`)); err != nil {
		return err
	}
	var second strings.Builder
	run := func(args ...string) (string, error) {
		t, err := s.start(ctx, args...)
		if err != nil {
			return "", err
		}
		defer t.stop()
		<-t.over
		fmt.Fprintf(&second, "\x1b[1m$ bin/lanekeeper %s\x1b[0m\n%s\n", quoted(args), t.text())
		return t.text(), nil
	}
	made, err := run("tasks", "create", title)
	if err != nil {
		return err
	}
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).FindString(made)
	if id == "" {
		return errors.New("the new task has no id: " + made)
	}
	if _, err := run("tasks", "logs", "-f", id); err != nil {
		return err
	}
	begun := regexp.MustCompile(`task (\w+) ` + title)
	if err := runner.await(ctx, regexp.MustCompile(`done.*`+title)); err != nil {
		return err
	}
	found := begun.FindStringSubmatch(plain(runner.text()))
	if found == nil {
		return errors.New("the terminal names no trace of the new task")
	}
	if _, err := run("trace", found[1]); err != nil {
		return err
	}
	picture := svg([]window{
		{"make run", clipped(s.usual(runner.text()), 46)},
		{"another terminal", strings.Split(strings.TrimRight(s.usual(second.String()), "\n"), "\n")},
	})
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // a page of the repository
		return err
	}
	return os.WriteFile(out, []byte(picture), 0o644) //nolint:gosec // a page of the repository
}

// usual replaces what is of this recording alone: its folder, its port and its keys.
func (s session) usual(text string) string {
	text = strings.ReplaceAll(text, s.dir, "~/lanekeeper")
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:8080")
	return regexp.MustCompile(`(LANEKEEPER_TOKEN=|token=|#)[A-Za-z0-9_.-]{16,}`).ReplaceAllString(text, "${1}…")
}

// clipped returns the first lines of a text, and those about tasks after them.
func clipped(text string, most int) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	out := all[:min(len(all), most)]
	cut := false
	for _, line := range all[len(out):] {
		if bare := plain(line); !strings.Contains(bare, " task ") && !strings.Contains(bare, "done ") {
			cut = true
			continue
		}
		if cut {
			out = append(out, "\x1b[2m           …\x1b[0m")
		}
		out, cut = append(out, line), false
	}
	return out
}

func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; strings.Contains(a, " ") {
			out[i] = "'" + a + "'"
		}
	}
	return strings.Join(out, " ")
}

// terminal is a program in a pseudo terminal.
type terminal struct {
	cmd  *exec.Cmd
	over chan struct{}
	mu   sync.Mutex
	said strings.Builder
	more chan struct{} // closed and replaced when there is more
}

func (s session) start(ctx context.Context, args ...string) (*terminal, error) {
	master, slave, err := pty()
	if err != nil {
		return nil, fmt.Errorf("open a pseudo terminal: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bin/lanekeeper", args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, s.env, slave, slave, slave
	cmd.Path = filepath.Join(s.dir, "bin", "lanekeeper")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = slave.Close()
	if err != nil {
		_ = master.Close()
		return nil, err
	}
	t := &terminal{cmd: cmd, over: make(chan struct{}), more: make(chan struct{})}
	go t.read(master)
	return t, nil
}

// read collects what the program prints, until it ends.
func (t *terminal) read(master *os.File) {
	defer close(t.over)
	defer master.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := master.Read(buffer)
		t.mu.Lock()
		t.said.WriteString(strings.ReplaceAll(string(buffer[:n]), "\r\n", "\n"))
		close(t.more)
		t.more = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.String()
}

// await waits until the program has printed what a pattern matches.
func (t *terminal) await(ctx context.Context, what *regexp.Regexp) error {
	for {
		t.mu.Lock()
		said, more := t.said.String(), t.more
		t.mu.Unlock()
		if what.MatchString(plain(said)) {
			return nil
		}
		select {
		case <-more:
		case <-t.over:
			return fmt.Errorf("it ended before it printed %s:\n%s", what, said)
		case <-ctx.Done():
			return fmt.Errorf("it did not print %s:\n%s", what, said)
		}
	}
}

func (t *terminal) stop() {
	_ = t.cmd.Process.Signal(os.Interrupt)
	_ = t.cmd.Wait()
}

// pty opens a pseudo terminal.
func pty() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
