// Package mcp lets tests drive /mcp with the official client of the Model Context Protocol, which
// comes from npm and is pinned by a lock file.
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

// Client returns a command that drives /mcp at a URL with an Authorization header, and fails if the
// server does not behave as it must. It finds or installs Node.js and the client; if it can't, the
// error is a [*servers.MissingError].
func Client(ctx context.Context, url, authorization string) (*exec.Cmd, error) {
	dir, node, err := npm.Install(ctx, "mcp-client", files)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node.Program, filepath.Join(dir, "client.mjs"))
	cmd.Env = append(os.Environ(), "MCP_URL="+url, "MCP_AUTHORIZATION="+authorization)
	return cmd, nil
}
