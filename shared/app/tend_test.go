package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// A receiver that hangs stops neither the ticker nor another workspace.
func TestAWorkspaceThatHangsHoldsNobodyUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, _ := newAgent(t, e)
	other := dbtest.NewWorkspace(t, e.DB)
	for _, ws := range []db.Workspace{e.Workspace, other} {
		var b db.Batch
		a.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: "late", Key: "a", Trace: "op_0mh8c1v2q_a7x2p1k9d4"})
		if err := e.DB.Do(t.Context(), ws, &b); err != nil {
			t.Fatal(err)
		}
	}
	h := hanging{on: e.Workspace, began: make(chan db.Workspace, 9), end: make(chan struct{})}
	a.Sender.Handlers["late"] = h
	var working sync.WaitGroup
	background := func(fn func(context.Context)) { working.Go(func() { fn(t.Context()) }) }
	a.TendAll(t.Context(), background)
	if first, second := <-h.began, <-h.began; first == second {
		t.Errorf("workspace %s alone was sent for", first)
	}
	a.TendAll(t.Context(), background) // it leaves alone what is being sent
	close(h.end)
	working.Wait()
	if len(h.began) > 0 {
		t.Error("a row was handled twice")
	}
}

type hanging struct {
	on    db.Workspace
	began chan db.Workspace
	end   chan struct{}
}

func (h hanging) Handle(_ context.Context, c outbox.Claimed) error {
	h.began <- c.Workspace
	if c.Workspace == h.on {
		<-h.end
	}
	return nil
}

type counter struct{ handled int }

func (c *counter) Handle(context.Context, outbox.Claimed) error { c.handled++; return nil }

// TestThreadsThatCannotBeSweptHoldNothingUp: what is due is sent all the same.
func TestThreadsThatCannotBeSweptHoldNothingUp(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	a, logs := newAgent(t, e)
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
		t.Errorf("handled %d times, the log says %s", c.handled, logs)
	}
}

func newAgent(t *testing.T, e dbtest.Env) (*app.Agent, *told) {
	t.Helper()
	cfg, err := app.LoadConfig([]string{"SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "LLM_PROVIDER=demo"})
	if err != nil {
		t.Fatal(err)
	}
	logs := new(told)
	core := app.NewCore(e.DB, cfg, app.NewLogger(logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	a, err := app.NewAgent(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	return a, logs
}
