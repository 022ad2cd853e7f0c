package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// Start-up output that goes into a file has no token and says how to get it. It also warns about
// settings that should be changed.
func TestNoTokenGoesIntoAFile(t *testing.T) {
	cfg, err := app.LoadConfig([]string{"JWT_SECRET=0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	greeted := welcome{cfg: cfg, url: "http://127.0.0.1:8080", token: "the-token-of-the-admin", log: slog.New(slog.DiscardHandler)}
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{out: file, name: "lanekeeper"}
	c.welcome(greeted)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), greeted.token) {
		t.Errorf("the file has the token: %s (%v)", text, err)
	}
	says(t, string(text), "`lanekeeper token`", "export LANEKEEPER_TOKEN=$(lanekeeper token)", "JWT_AUDIENCE is missing")
	var elsewhere bytes.Buffer
	c.out = &elsewhere
	c.welcome(greeted)
	says(t, elsewhere.String(), "lanekeeper agents register new '{\"name\": \"worker\", \"spawner\": \"builtin\"}'\n  lanekeeper tasks create")
	elsewhere.Reset()
	greeted.agents = true
	c.welcome(greeted)
	if strings.Contains(elsewhere.String(), "agents register") {
		t.Errorf("a second agent is suggested:\n%s", &elsewhere)
	}
	says(t, elsewhere.String(), "#token=the-token-of-the-admin", "export LANEKEEPER_TOKEN=the-token-of-the-admin", "JWT_AUDIENCE is missing")
}
