// Package mcp has the Model Context Protocol's own client, of npm and pinned by a lock
// file, drive /mcp in the tests.
package mcp

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest/servers"
)

//go:embed package.json package-lock.json client.mjs
var files embed.FS

// Client is the command that drives /mcp at a URL with an Authorization header, and
// fails where something is not as it should be. Node.js and the client are found, or installed:
// what can't be had is a [*servers.MissingError].
func Client(ctx context.Context, url, authorization string) (*exec.Cmd, error) {
	node, err := servers.Node(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := installed(ctx, node)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node.Program, filepath.Join(dir, "client.mjs"))
	cmd.Env = append(os.Environ(), "MCP_URL="+url, "MCP_AUTHORIZATION="+authorization)
	return cmd, nil
}

// installed is a folder, outside of the repository, with the client and all that it
// needs; its name says what is in it.
func installed(ctx context.Context, node servers.NodeJS) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.New()
	if err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		fmt.Fprintln(sum, name, len(content))
		sum.Write(content)
		return err
	}); err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "lanekeeper", "mcp-client-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	making, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(making) }() // it is gone, or of no use
	if err := os.CopyFS(making, files); err != nil {
		return "", err
	}
	npm := exec.CommandContext(ctx, node.NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = making
	if out, err := npm.CombinedOutput(); err != nil {
		return "", node.Missing(fmt.Errorf("npm ci: %w\n%s", err, out))
	}
	if err := os.Rename(making, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another was faster
		return "", err
	}
	return dir, nil
}
