package lane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
)

// mustFailHonestly calls everything on a database that does not answer. It fails the test when a
// call reports the silence as a busy lane, a lost hold or a free lane.
func mustFailHonestly(t *testing.T, w world) {
	t.Helper()
	ctx := t.Context()
	h := &lane.Hold{Lane: "x", Workspace: w.Workspace, Token: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
	_, acquire := w.s.Acquire(ctx, w.request("x"))
	_, acquireAll := w.s.AcquireAll(ctx, w.requests("x", "y")...)
	_, list := w.s.List(ctx, w.Workspace, 10)
	_, peek := w.s.Peek(ctx, w.Workspace, "x")
	_, explain := w.s.Explain(ctx, w.Workspace, "x", nil)
	_, sweep := w.s.Sweep(ctx, w.Workspace)
	force := w.DB.Tx(ctx, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := w.s.ForceRelease(ctx, tx, "x")
		return err
	})
	for what, err := range map[string]error{
		"acquire": acquire, "acquire all": acquireAll, "list": list, "peek": peek, "explain": explain, "sweep": sweep,
		"renew":   w.s.Renew(ctx, h, time.Minute),
		"release": w.s.Release(ctx, h),
		"proof":   w.s.InHold(ctx, h, nothing),
		"want":    w.s.Want(ctx, w.Workspace, lane.Info{Lane: "x"}, "me"),
		"force":   force,
		"do":      w.s.Do(ctx, w.request("x"), lane.Wait{Limit: time.Hour}, mustNotRun(t)),
	} {
		_, busy := errors.AsType[*lane.BusyError](err)
		if err == nil || busy || errors.Is(err, lane.ErrLost) || errors.Is(err, db.ErrNoRows) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAClosedDatabaseIsAnErrorAndNotABusyLane(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var d *db.DB
		var err error
		if w.Engine == dbtest.OnSQLite {
			d, err = sqlite.Open(t.Context(), sqlite.Config{Path: w.URL})
		} else {
			d, err = postgres.Open(postgres.Config{URL: w.URL})
		}
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		w.DB, w.s = d, open(t, d)
		mustFailHonestly(t, w)
	})
}

func TestAnUnreachablePostgresIsAnErrorAndNotABusyLane(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = l.Close() // nobody listens on the address now
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := postgres.Open(postgres.Config{URL: fmt.Sprintf("postgres://me@%s/lanes?sslmode=disable", l.Addr())})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := world{s: open(t, d)}
	w.DB, w.Workspace = d, "00000000-0000-7000-8000-000000000001"
	dbtest.Load(t, "testdata/register", &w.q)
	mustFailHonestly(t, w)
	if _, err := w.s.Acquire(t.Context(), w.request("x")); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestADatabaseWithoutASchemaIsAnErrorAndNotABusyLane(t *testing.T) {
	d, err := postgres.Open(postgres.Config{URL: dbtest.NewDatabase(t), Schema: migrations.Latest()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	w := world{s: open(t, d)}
	w.DB, w.Workspace = d, "00000000-0000-7000-8000-000000000001"
	dbtest.Load(t, "testdata/register", &w.q)
	mustFailHonestly(t, w)
	_, err = w.s.Acquire(t.Context(), w.request("x"))
	if _, outdated := errors.AsType[*db.SchemaError](err); !outdated {
		t.Errorf("got %v", err)
	}
}

func TestACancelledCallerIsNotTakenForRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for what, err := range map[string]error{
			"acquire": func() error { _, err := w.s.Acquire(ctx, w.request("x")); return err }(),
			"do":      w.s.Do(ctx, w.request("x"), lane.Wait{Limit: time.Hour}, mustNotRun(t)),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.mustBeFree(t, "x")
	})
}

func TestAWorkspaceThatIsNotThereHasNoLanes(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.Workspace = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
		if _, err := w.s.Acquire(t.Context(), w.request("x")); !errors.Is(err, db.ErrReference) {
			t.Errorf("got %v", err)
		}
	})
}

func TestANameTheDatabaseRefusesIsAnError(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for what, r := range map[string]lane.Request{
			"no lane":   {Workspace: w.Workspace, Holder: "me"},
			"no holder": {Workspace: w.Workspace, Lane: "x"},
		} {
			if _, err := w.s.Acquire(t.Context(), r); !errors.Is(err, db.ErrCheck) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
