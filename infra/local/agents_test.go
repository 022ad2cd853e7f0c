package main

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// TestAnAgentIsFoundBehindManyThatHaveEnded: agents of tests and of short runs end, and stay on record.
func TestAnAgentIsFoundBehindManyThatHaveEnded(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	agents, err := agent.New(e.DB, uuid.NewString)
	if err != nil {
		t.Fatal(err)
	}
	change := func(fn func(context.Context, *db.Tx) error) {
		t.Helper()
		if err := e.DB.Tx(t.Context(), e.Workspace, fn); err != nil {
			t.Fatal(err)
		}
	}
	register := func(ctx context.Context, tx *db.Tx, name string) string {
		t.Helper()
		a, _, err := agents.Register(ctx, tx, agent.Agent{ID: uuid.NewString(), Name: name, Spawner: agent.SpawnPull, CreatedBy: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	has := func(want bool) {
		t.Helper()
		if got, err := hasAgent(t.Context(), agents, e.Workspace); err != nil || got != want {
			t.Errorf("an agent is found: %t, want %t; %v", got, want, err)
		}
	}
	has(false)
	var first string
	change(func(ctx context.Context, tx *db.Tx) error { first = register(ctx, tx, "first"); return nil })
	change(func(ctx context.Context, tx *db.Tx) error {
		for n := range 201 {
			if _, _, err := agents.Terminate(ctx, tx, register(ctx, tx, "short "+strconv.Itoa(n)), "", false); err != nil {
				return err
			}
		}
		return nil
	})
	has(true)
	change(func(ctx context.Context, tx *db.Tx) error {
		_, _, err := agents.Terminate(ctx, tx, first, "", false)
		return err
	})
	has(false)
}
