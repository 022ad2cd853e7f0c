//go:build unix

package main

import (
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/openai"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestClientsFromNPM chat with the built command as they do with others.
func TestClientsFromNPM(t *testing.T) {
	c := newChaos(t, built(t), "sqlite", promise.Seed(t))
	const page = "https://shop.example"
	var site struct{ Key string }
	c.must(t, "POST", "/site-keys", `{"name":"shop","origins":["`+page+`"]}`, &site)
	cmd, err := openai.Client(t.Context(), c.url, site.Key, page)
	if _, missing := errors.AsType[*servers.MissingError](err); missing && !dbtest.InCI() {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, c.runner)
	}
}
