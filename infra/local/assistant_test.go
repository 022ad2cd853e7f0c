package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/mcp"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestAnAssistantOnEveryDatabase drives a local runner with the MCP client from npm.
func TestAnAssistantOnEveryDatabase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testAssistant(t, newHome(t)) })
	t.Run("postgres", func(t *testing.T) {
		testAssistant(t, newHome(t, "STATE_BACKEND=postgres", "DATABASE_URL="+dbtest.NewDatabase(t), "DEMO=1"))
	})
}

func testAssistant(t *testing.T, h home) {
	d := h.dev()
	url, token, _ := d.started()
	if status, body := call(t, "POST", url+"/api/v1/skills", token, `{"name":"save_memory","kind":"builtin","requiresApproval":true}`); status != 201 {
		t.Fatalf("a skill that requires approval: %d %s", status, body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // npm may have to download it
	defer cancel()
	path, authorization := configured(t)
	client, err := mcp.Client(ctx, url+path, os.Expand(authorization, func(string) string { return token }))
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, string(out), "tools; approved ")
	says(t, d.out.String(), "POST /mcp · 200", "POST /api/v1/approvals/{id}/approve · 200")
	if code := d.end(); code != exitDone || d.errs.String() != "" {
		t.Errorf("exit code %d\n%s", code, d)
	}
}

// configured returns the path and the Authorization header that the guide tells an assistant to use.
func configured(t *testing.T) (path, authorization string) {
	t.Helper()
	guide, err := os.ReadFile("../../infra/docs/assistant.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```json\n")
	text, _, _ = strings.Cut(text, "```")
	var config struct {
		Servers map[string]struct {
			URL     string
			Headers map[string]string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	lanekeeper := config.Servers["lanekeeper"]
	path, isLocal := strings.CutPrefix(lanekeeper.URL, "http://127.0.0.1:8080")
	if !isLocal || lanekeeper.Headers["Authorization"] == "" {
		t.Fatalf("%+v", config)
	}
	return path, lanekeeper.Headers["Authorization"]
}
