// Package mcp has the Model Context Protocol's own client, of npm and pinned by a lock
// file, drive /mcp in the tests.
package mcp

import (
	"context"
	"embed"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/rig/npm"
)

//go:embed package.json package-lock.json client.mjs
var files embed.FS

// Client is the command that drives /mcp at a URL with an Authorization header, and
// fails where something is not as it should be. Node.js and the client are found, or installed:
// what can't be had is a [*servers.MissingError].
func Client(ctx context.Context, url, authorization string) (*exec.Cmd, error) {
	dir, node, err := npm.Install(ctx, "mcp-client", files)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node.Program, filepath.Join(dir, "client.mjs"))
	cmd.Env = append(os.Environ(), "MCP_URL="+url, "MCP_AUTHORIZATION="+authorization)
	return cmd, nil
}
