// Package standardwebhooks lets tests verify signed requests by the package of that name, as receivers
// do. It comes from npm as it is, and is pinned by a lock file.
package standardwebhooks

import (
	"context"
	"embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lanekeeper/lanekeeper/infra/rig/npm"
)

//go:embed package.json package-lock.json verify.mjs
var files embed.FS

// Request is a request to verify with a secret.
type Request struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Good    bool              `json:"good"` // whether the signature must be accepted
}

// Verify returns a command that fails unless each request is accepted or refused as it must be. It
// finds or installs Node.js and the package; if it can't, the error is a [*servers.MissingError].
func Verify(ctx context.Context, requests []Request) (*exec.Cmd, error) {
	dir, node, err := npm.Install(ctx, "standard-webhooks", files)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, node.Program, filepath.Join(dir, "verify.mjs"))
	cmd.Env = append(os.Environ(), "REQUESTS="+string(raw))
	return cmd, nil
}
