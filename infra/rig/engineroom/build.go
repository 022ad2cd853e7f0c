// Package engineroom builds the Engine Room's page and opens it in a browser, for tests and for
// `make web`.
package engineroom

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing/fstest"

	"github.com/lanekeeper/lanekeeper/infra/rig/npm"
)

// pinned are the files that say which packages the build needs. They alone name the folder in which
// these are installed, so that it is kept while the source changes.
var pinned = []string{"package.json", "package-lock.json"}

// Build checks the types of the source in the folder web, and builds it to the folder out, which is
// emptied. It installs the packages of the lock file, once per machine, and links them as
// web/node_modules. If they can't be installed, the error is a [*servers.MissingError].
func Build(ctx context.Context, web, out string) error {
	files, err := pins(web)
	if err != nil {
		return err
	}
	dir, node, err := npm.Install(ctx, "engineroom", files)
	if err != nil {
		return err
	}
	modules := filepath.Join(web, "node_modules")
	if err := os.RemoveAll(modules); err != nil { // it may link the packages of an older lock file
		return err
	}
	if err := os.Symlink(filepath.Join(dir, "node_modules"), modules); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"node_modules/typescript/bin/tsc", "--noEmit"},
		{"node_modules/vite/bin/vite.js", "build", "--outDir", out, "--emptyOutDir", "--logLevel", "warn"},
	} {
		cmd := exec.CommandContext(ctx, node.Program, step...)
		cmd.Dir = web
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", filepath.Base(step[0]), err, said)
		}
	}
	return nil
}

// pins returns the files that pin the packages.
func pins(web string) (fs.FS, error) {
	files := fstest.MapFS{}
	for _, name := range pinned {
		content, err := os.ReadFile(filepath.Join(web, name))
		if err != nil {
			return nil, err
		}
		files[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	return files, nil
}
