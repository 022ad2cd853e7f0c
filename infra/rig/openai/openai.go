// Package openai lets tests chat with the clients that people use: openai, and ai with
// @ai-sdk/openai-compatible. They come from npm as they are, and are pinned by a lock file.
package openai

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

// Client returns a command that chats at an origin with a key, as a page of another origin does, and
// fails if an answer is not what the clients expect. It finds or installs Node.js and the clients; if it can't, the error is a
// [*servers.MissingError].
func Client(ctx context.Context, origin, key, page string) (*exec.Cmd, error) {
	dir, node, err := npm.Install(ctx, "openai-clients", files)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node.Program, filepath.Join(dir, "client.mjs"))
	cmd.Env = append(os.Environ(), "CHAT_URL="+origin, "CHAT_KEY="+key, "CHAT_PAGE="+page)
	return cmd, nil
}
