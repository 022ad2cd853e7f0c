package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

// policy is the file with which Debian decides whether a newly installed service may start.
const policy = "/usr/sbin/policy-rc.d"

// canInstall reports whether this process is root on Debian or a derivative.
func canInstall() bool {
	_, err := os.Stat("/etc/debian_version")
	_, errApt := exec.LookPath("apt-get")
	return os.Geteuid() == 0 && err == nil && errApt == nil
}

// install installs one package with apt-get: the program, without starting its service. When that
// fails, it updates the package list and tries once more.
func install(ctx context.Context, p program) error {
	// Test binaries run concurrently; dpkg's own lock covers only half of this.
	lock, err := os.OpenFile("/run/lanekeeper-apt.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock for apt-get: %w", err)
	}
	if _, err := p.find(ctx); err == nil {
		return nil // another process has installed it meanwhile
	}
	slog.InfoContext(ctx, "installing with apt-get", "package", p.apt)
	allow, err := forbidServices()
	if err != nil {
		return err
	}
	defer allow()

	const yes, lean = "-y", "--no-install-recommends"
	if apt(ctx, "install", yes, lean, p.apt) == nil {
		return nil
	}
	for range 2 {
		if err = apt(ctx, "update"); err == nil {
			err = apt(ctx, "install", yes, lean, p.apt)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// forbidServices keeps packages from starting services until allow is called. It does not change an
// existing policy of the machine.
func forbidServices() (allow func(), err error) {
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	return func() { _ = os.Remove(policy) }, errors.Join(err, f.Close())
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // dpkg must not be interrupted
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(out))
	}
	return nil
}
