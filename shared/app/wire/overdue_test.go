package wire_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// TestAWebhookWhoseKickIsGoneIsDoneByTheSchedule: the next minute finds it, and does it. So does a
// source begin to catch up that has lost its row.
func TestAWebhookWhoseKickIsGoneIsDoneByTheSchedule(t *testing.T) {
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) { testLostKick(t, dbtest.Alone(t, engine)) })
	}
}

func testLostKick(t *testing.T, e dbtest.Env) {
	a, logs := newAgent(t, e)
	n := inbox.Source{Name: "gh", Kind: inbox.GitHub, Enabled: true, CreatedBy: "user:ada", Hook: &inbox.Hook{Owner: "acme", Repo: "app", ID: 42, Token: "none"}}
	if err := json.Unmarshal([]byte(`[{"then":{"skill":"save_memory","with":{"category":"fact","content":"It burns.","importance":5}}}]`), &n.Rules); err != nil {
		t.Fatal(err)
	}
	var q struct{ Forget, Slug db.Query }
	err := db.Load(fstest.MapFS{"x.sql": {Data: []byte("-- name: Forget\nDELETE FROM outbox WHERE workspace_id = $1;\n-- name: Slug\nSELECT slug FROM workspaces WHERE id = $1;\n")}}, &q)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := a.Inbox.Seal(t.Context(), e.Workspace, n, secret.NewValue("a secret of the sender"))
	if err != nil {
		t.Fatal(err)
	}
	err = e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Inbox.Create(ctx, tx, draft)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var slug string
	if err := e.DB.One(t.Context(), e.Workspace, []any{&slug}, q.Slug); err != nil {
		t.Fatal(err)
	}
	f, err := a.Inbox.Find(t.Context(), slug, "gh")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.With(t.Context(), a.Traces.New(trace.Webhook))
	got, err := a.Inbox.Receive(ctx, f, inbox.Content{ID: "d1", Event: "issues", Digest: strings.Repeat("0", 64)}, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.DB.Exec(t.Context(), e.Workspace, q.Forget); err != nil {
		t.Fatal(err)
	}
	e.Skew.Advance(time.Second)
	<-a.Tender.All(t.Context(), func(fn func(context.Context)) { go fn(t.Context()) })
	if d, err := a.Inbox.Delivery(t.Context(), e.Workspace, got.ID); err != nil || d.Status != inbox.Done {
		t.Errorf("%+v, %v\n%s", d, err, logs)
	}
	if s, err := a.Inbox.Source(t.Context(), e.Workspace, "gh"); err != nil || s.Caught == nil || s.Caught.Error != "there is no secret none" {
		t.Errorf("the source has caught up: %+v, %v", s.Caught, err)
	}
}
