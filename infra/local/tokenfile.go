package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// tokenFile is where a generated admin token is kept: beside the database file.
func tokenFile(cfg app.Config) string {
	return filepath.Join(filepath.Dir(cfg.SQLitePath), "admin-token")
}

// adminToken is the configured admin token, else the one that was generated
// before; [fs.ErrNotExist] when there is neither.
func adminToken(cfg app.Config) (string, error) {
	if cfg.AdminToken != "" {
		return cfg.AdminToken, nil
	}
	path := tokenFile(cfg)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the admin token: %w", err)
	}
	t := strings.TrimSpace(string(text))
	if len(t) < minToken || strings.ContainsAny(t, " \t\r\n") {
		return "", fmt.Errorf("%s holds no token: remove it, and `lanekeeper dev` makes a new one", path)
	}
	return t, nil
}

// minToken is the shortest text a stored token may be; ours are 26 long.
const minToken = 20

// ensureToken is adminToken that generates a token when there is none, and keeps
// it in a file for this user alone, so that restarts find it.
func ensureToken(cfg app.Config) (string, error) {
	t, err := adminToken(cfg)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	path := tokenFile(cfg)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("keep the admin token: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "admin-token-*") // mode 600
	if err != nil {
		return "", fmt.Errorf("keep the admin token: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, rand.Text())
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("keep the admin token: %w", err)
	}
	// A link appears whole or not at all: of two that start at once both read the
	// same token.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep the admin token: %w", err)
	}
	return adminToken(cfg)
}
