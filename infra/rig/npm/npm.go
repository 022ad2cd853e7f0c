// Package npm installs packages from npm for the tests. The packages are pinned by a lock file,
// stored outside of the repository, and installed once per machine.
package npm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
)

// Install returns a folder that holds the files and, in node_modules, the packages that their
// package-lock.json pins. The folder's name begins with name and ends with a checksum of the files.
// Install scripts of packages do not run. Install also finds or installs Node.js; if it can't, the
// error is a [*servers.MissingError].
func Install(ctx context.Context, name string, files fs.FS) (dir string, node servers.NodeJS, err error) {
	if node, err = servers.Node(ctx); err != nil {
		return "", node, err
	}
	sum, err := checksum(files)
	if err != nil {
		return "", node, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir = filepath.Join(cache, "lanekeeper", name+"-"+sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, node, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", node, err
	}
	making, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return "", node, err
	}
	defer func() { _ = os.RemoveAll(making) }() // it was renamed, or it is useless
	if err := os.CopyFS(making, files); err != nil {
		return "", node, err
	}
	ci := exec.CommandContext(ctx, node.NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	ci.Dir = making
	if out, err := ci.CombinedOutput(); err != nil {
		return "", node, node.Missing(fmt.Errorf("npm ci: %w\n%s", err, out))
	}
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster
		return "", node, err
	}
	return dir, node, nil
}

// checksum returns 16 hexadecimal digits that identify the names and contents of all files.
func checksum(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		_, _ = fmt.Fprintln(sum, name, len(content)) // writing to a hash never fails
		_, _ = sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}
