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

// policy is Debian's way to say whether a freshly installed service may start.
const policy = "/usr/sbin/policy-rc.d"

// canInstall reports whether we are root on Debian or one of its children.
func canInstall() bool {
	_, err := os.Stat("/etc/debian_version")
	_, errApt := exec.LookPath("apt-get")
	return os.Geteuid() == 0 && err == nil && errApt == nil
}

// install installs one package with apt-get: the program, not the service it
// would start. The package list is fetched when the one at hand does not do;
// after that one more try is made.
func install(ctx context.Context, p program) error {
	// Test binaries run side by side; dpkg's own lock covers half of this.
	lock, err := os.OpenFile("/run/lanekeeper-apt.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock for apt-get: %w", err)
	}
	if _, err := p.find(ctx); err == nil {
		return nil // another process installed it meanwhile
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

// forbidServices keeps packages from starting services until allow is called.
// A policy the machine has already is left as it is.
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
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // dpkg must not be cut off
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(out))
	}
	return nil
}
