package servers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// NodeJS is a Node.js with its npm.
type NodeJS struct{ Program, NPM string }

var node = program{name: "Node.js 18 or newer with npm", apt: "npm", brew: "node", find: findNode}

// Node finds Node.js, or installs it. It returns a [*MissingError] when neither is possible.
// Node.js is no server, but it is found and installed in the same way.
func Node(ctx context.Context) (NodeJS, error) {
	path, err := node.path(ctx)
	return NodeJS{path, filepath.Join(filepath.Dir(path), "npm")}, err
}

// Missing returns the error for something of npm's that is missing.
func (NodeJS) Missing(err error) error { return node.missing(err) }

// findNode finds a Node.js that is new enough, with npm next to it.
func findNode(ctx context.Context) (string, error) {
	path, err := findAny("node")(ctx)
	if err != nil {
		return "", err
	}
	v, err := version(ctx, path)
	if err != nil {
		return "", err
	}
	if v[0] < 18 {
		return "", fmt.Errorf("version %d found at %s", v[0], path)
	}
	if _, err := exec.LookPath(filepath.Join(filepath.Dir(path), "npm")); err != nil {
		return "", fmt.Errorf("no npm beside %s", path)
	}
	return path, nil
}
