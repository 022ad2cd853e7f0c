package outbox_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/lanekeeper/lanekeeper/infra/rig/proxy"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// TestALostAnswerHoldsNoRow loses the answer to a claim, or to the mark of a row. The row is sent again
// without waiting for the end of its lease.
func TestALostAnswerHoldsNoRow(t *testing.T) {
	for _, engine := range []string{dbtest.OnPostgres, dbtest.OnPgBouncer} {
		for _, lost := range []string{"due AS MATERIALIZED", "lk_outbox_end"} {
			t.Run(engine+"/"+lost, func(t *testing.T) {
				e := dbtest.New(t, engine)
				p, err := proxy.Start(e.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				e.URL = p.URL
				e.DB, e.Skew = e.Open(t, 1)
				w := newWorld(t, e)
				handled := 0
				s := w.sender(handler(func(context.Context, outbox.Claimed) error { handled++; return nil }))
				row := w.enqueue(t, kick("a"))[0]
				p.At(lost, proxy.Fault{Kind: proxy.CutAnswer})
				if _, err := s.Drain(t.Context(), w.Workspace, 10); err == nil {
					t.Fatal("no answer was lost")
				}
				for range 2 { // a connection may have to be made anew
					if err = s.Settle(t.Context()); err == nil {
						break
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				before := handled
				if _, err := s.Drain(t.Context(), w.Workspace, 10); err != nil {
					t.Fatal(err)
				}
				if lost == "due AS MATERIALIZED" && handled != before+1 {
					t.Errorf("handled %d times, then %d", before, handled)
				}
				w.mustBe(t, outbox.Sent, row)
			})
		}
	}
}

// TestALostMarkGivesBackItsRowAlone loses the answer to the mark of one row, while a handler works on
// another row of the same claim. Nobody else may get that one.
func TestALostMarkGivesBackItsRowAlone(t *testing.T) {
	e := dbtest.New(t, dbtest.OnPostgres)
	p, err := proxy.Start(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e.URL = p.URL
	e.DB, e.Skew = e.Open(t, 2)
	w := newWorld(t, e)
	var s *outbox.Sender
	due := -1
	s = w.sender(handler(func(ctx context.Context, c outbox.Claimed) error {
		if c.Key == "a" {
			return nil
		}
		for s.Owed() == 0 && ctx.Err() == nil {
			runtime.Gosched()
		}
		for range 2 { // a connection may have to be made anew
			if err = s.Settle(ctx); err == nil {
				break
			}
		}
		due = w.due(t, topic)
		return err
	}))
	rows := w.enqueue(t, kick("a"), kick("b"))
	p.At("lk_outbox_end", proxy.Fault{Kind: proxy.Cut})
	if _, err := s.Drain(t.Context(), w.Workspace, 10); err == nil {
		t.Fatal("no answer was lost")
	}
	if due != 1 {
		t.Errorf("%d rows are due while a handler works on one of the two, want the other one", due)
	}
	w.mustBe(t, outbox.Sent, rows[1])
}
