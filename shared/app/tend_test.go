package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

type counter struct{ handled int }

func (c *counter) Handle(context.Context, outbox.Claimed) error { c.handled++; return nil }

// TestThreadsThatCannotBeSweptHoldNothingUp: what is due is sent all the same.
func TestThreadsThatCannotBeSweptHoldNothingUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	cfg, err := app.LoadConfig([]string{"SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "LLM_PROVIDER=demo"})
	if err != nil {
		t.Fatal(err)
	}
	var logs told
	core := app.NewCore(e.DB, cfg, app.NewLogger(&logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	a, err := app.NewAgent(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	var b db.Batch
	a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
	away, err := db.Parse(fstest.MapFS{"away.sql": {Data: []byte("-- name: Away\n-- global: it is no row's\nALTER TABLE threads RENAME TO away;\n")}})
	if err == nil {
		_, err = e.DB.Exec(t.Context(), "", away[0])
	}
	if err := errors.Join(err, e.DB.Do(t.Context(), e.Workspace, &b)); err != nil {
		t.Fatal(err)
	}
	var c counter
	a.Sender.Handlers["late"] = &c
	a.Tend(t.Context(), e.Workspace)
	if c.handled != 1 || !strings.Contains(logs.String(), "sweep threads") {
		t.Errorf("handled %d times, the log says %s", c.handled, &logs)
	}
}
