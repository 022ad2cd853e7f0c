package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// home is a server's directory and its owner.
type home struct {
	who       *account
	dir       string
	temporary bool // ours to remove

	// lock is a lock on the directory, held until this process ends. It tells other processes that
	// a temporary directory is in use.
	lock *os.File
}

// prefix is the prefix of every temporary directory.
const prefix = "lanekeeper-servers-"

// newHome makes dir, or a new temporary directory if dir is "". Call it after the server is
// installed, because the package may create the account.
func newHome(dir string) (h home, err error) {
	if h.who, err = serverAccount(); err != nil {
		return h, err
	}
	if dir == "" {
		err = h.makeTemporary()
	} else if h.dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(h.dir, 0o700)
	}
	if err == nil && h.who != nil {
		err = errors.Join(os.Chown(h.dir, int(h.who.uid), int(h.who.gid)), h.who.reach(h.dir))
	}
	if err != nil {
		return h, fmt.Errorf("directory for a server: %w", errors.Join(err, h.remove()))
	}
	return h, nil
}

// newFiles makes a temporary directory of the current user, through which the servers' account may pass. Even root
// needs one of its own: the processes of Chromium have given up the right to write to those of others.
func newFiles() (h home, err error) {
	if h.who, err = serverAccount(); err != nil {
		return h, err
	}
	if err = h.makeTemporary(); err == nil {
		err = os.Chmod(h.dir, 0o711)
	}
	if err != nil {
		return h, fmt.Errorf("directory for the tests: %w", errors.Join(err, h.remove()))
	}
	return h, nil
}

// makeTemporary makes a temporary directory and locks it.
func (h *home) makeTemporary() (err error) {
	h.temporary = true
	base := os.TempDir()
	if h.who.reach(base) != nil {
		base = "/tmp"
	}
	sweep(base)
	if h.dir, err = os.MkdirTemp(base, prefix); err == nil {
		h.lock, err = lock(h.dir)
	}
	return err
}

// remove removes a temporary directory.
func (h home) remove() error {
	if !h.temporary || h.dir == "" {
		return nil
	}
	_ = h.lock.Close() // nothing was written; nil is harmless
	return os.RemoveAll(h.dir)
}

// sweep removes temporary directories of killed test runs, which no process has locked. It ignores
// errors.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, prefix+"*")) // fails only on a bad pattern
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue // a new directory may not be locked yet
		}
		if held, err := lock(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = held.Close()
		}
	}
}

// lock opens a directory and locks it until it is closed. It fails if another process holds the
// lock.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeFile writes a file that only the account may read.
func (h home) writeFile(name, text string) error {
	path := filepath.Join(h.dir, name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if err == nil && h.who != nil {
		err = os.Chown(path, int(h.who.uid), int(h.who.gid))
	}
	return err
}

// command returns a program to run in the directory as its account. Nothing in its environment can
// change what it does.
func (h home) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "TMPDIR=" + h.dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if h.who != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: h.who.uid, Gid: h.who.gid}
	}
	return cmd
}

// run runs a short program until it ends. An error contains its output.
func (h home) run(ctx context.Context, argv ...string) error {
	out, err := h.command(ctx, argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(argv[0]), err, tail(out))
	}
	return nil
}
