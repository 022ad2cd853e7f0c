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

// tokenFile returns the path of the generated admin token: it is stored beside the database file.
func tokenFile(cfg app.Config) string {
	return filepath.Join(filepath.Dir(cfg.SQLitePath), "admin-token")
}

// adminToken returns the configured admin token, or else the generated one. It returns
// [fs.ErrNotExist] if there is neither.
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

// minToken is the shortest accepted length of a stored token. Generated tokens have 26 characters.
const minToken = 20

// ensureToken is like adminToken, but generates a token if there is none. It stores it in a file
// that only this user can read, so that it is the same after a restart.
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
	// A link is created atomically. Two processes that start at the same time read the same token.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("keep the admin token: %w", err)
	}
	return adminToken(cfg)
}
