package rig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// built caches the binaries that this process has built. It is the package's only global state:
// building is slow, and all tests of a package use the same few binaries.
var built struct {
	sync.Mutex
	paths map[string]string
}

// Build builds the bootstrap of a main package like a deployment, with additional build tags, and
// returns the path of the binary. The package is an import path of this module, or a path relative to
// the working directory that starts with "./". Each binary is built once per process. The binaries are
// in a directory that all test processes of the user share, so that an unchanged one is not linked again.
func Build(ctx context.Context, pkg string, tags ...string) (string, error) {
	from, err := os.Getwd()
	if err == nil && !strings.HasPrefix(pkg, "./") {
		from, err = module(from)
	}
	if err != nil {
		return "", fmt.Errorf("rig: build %s: %w", pkg, err)
	}
	tagList := strings.Join(append([]string{"lambda.norpc", "nethttpomithttp2"}, tags...), ",")
	key := from + "\x00" + pkg + "\x00" + tagList

	built.Lock()
	defer built.Unlock()
	if path := built.paths[key]; path != "" {
		return path, nil
	}
	path, err := build(ctx, pkg, tagList, key)
	if err != nil {
		return "", fmt.Errorf("rig: build %s: %w", pkg, err)
	}
	if built.paths == nil {
		built.paths = make(map[string]string)
	}
	built.paths[key] = path
	return path, nil
}

func build(ctx context.Context, pkg, tags, key string) (string, error) {
	dir, err := binaryDir(key)
	if err != nil {
		return "", err
	}
	// Test processes of several packages run at the same time.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // this also releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bootstrap")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", tags, "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, bytes.TrimSpace(output))
	}
	return path, nil
}

// module returns the root of the module that a directory belongs to.
func module(dir string) (string, error) {
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}

// binaryDir returns the directory for the binary of the key. The binary is run from there, so no
// other user may be able to write to the directory.
func binaryDir(key string) (string, error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("lanekeeper-rig-%d", os.Getuid()))
	if err := os.Mkdir(root, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(root)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s must be a directory of this user's own with mode 0700", root)
	}
	sum := sha256.Sum256([]byte(key))
	dir := filepath.Join(root, fmt.Sprintf("%x", sum[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}
