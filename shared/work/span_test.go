package work_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/span"
	"github.com/lanekeeper/lanekeeper/shared/span/spantest"
	"github.com/lanekeeper/lanekeeper/shared/work"
)

// The span of a run says how the run ended: by a status, or by the class of an error, never by its message.
func TestHowARunEndedIsInItsSpan(t *testing.T) {
	const canary = "canary-7f3a"
	for name, c := range map[string]struct {
		act    func(context.Context, reason.Job) (reason.Outcome, error)
		status any
		class  any
	}{
		"completed":       {does(execution.Completed, nil), "completed", nil},
		"parked":          {does(execution.Parked, nil), "parked", nil},
		"cancelled":       {does(execution.Cancelled, nil), "cancelled", nil},
		"failed":          {does(execution.Failed, nil), "failed", "failed"},
		"an error":        {does("", errors.New(canary)), nil, "_OTHER"},
		"a lost lane":     {does("", fmt.Errorf("%s: %w", canary, lane.ErrLost)), nil, "lane_lost"},
		"a busy lane":     {does("", fmt.Errorf("%s: %w", canary, &lane.BusyError{})), nil, "lane_busy"},
		"no database":     {does("", fmt.Errorf("%s: %w", canary, db.ErrUnavailable)), nil, "database_unavailable"},
		"a time limit":    {does("", fmt.Errorf("%s: %w", canary, context.DeadlineExceeded)), nil, "timeout"},
		"a cancellation":  {does("", fmt.Errorf("%s: %w", canary, context.Canceled)), nil, "canceled"},
		"a panic":         {func(context.Context, reason.Job) (reason.Outcome, error) { panic(canary) }, nil, "panic"},
		"no work of ours": {nil, "running", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
			spans := w.exported(t)
			w.act = c.act
			u := w.unit()
			if c.act == nil {
				u.Act = nil // the unit only begins
			}
			w.doAnyhow(t, u)
			all := spans()
			if len(all) != 1 {
				t.Fatalf("%d spans", len(all))
			}
			s := all[0]
			if s.Attributes["lanekeeper.status"] != c.status || s.Attributes["error.type"] != c.class || s.Failed != (c.class != nil) {
				t.Errorf("it is %+v", s)
			}
			if strings.Contains(fmt.Sprintf("%+v", s), canary) {
				t.Errorf("the span holds the message: %+v", s)
			}
		})
	}
}

// Each attempt has a span of its own, and so has the end of what is given up. All hang below the first one.
func TestTheSpansOfPoison(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	spans := w.exported(t)
	w.act = does("", errDied)
	for range 6 {
		w.doAnyhow(t, w.unit())
	}
	all := spans()
	var ends []any
	for n, s := range all {
		ends = append(ends, s.Attributes["error.type"])
		if want := all[0].ID; n > 0 && s.Parent != want || n == 0 && s.Parent != "" {
			t.Errorf("span %d is %+v", n, s)
		}
	}
	if want := []any{"_OTHER", "_OTHER", "_OTHER", "_OTHER", "_OTHER", "poison"}; !reflect.DeepEqual(ends, want) {
		t.Errorf("they end as %v, want %v", ends, want)
	}
}

// exported has the world's spans go to a receiver. The returned function flushes them and returns the spans.
func (w *world) exported(t *testing.T) func() []spantest.Span {
	t.Helper()
	r := spantest.New(t)
	x := span.New(span.Options{Endpoint: r.URL, Limit: time.Minute})
	t.Cleanup(x.Close)
	w.Reason.Spans = x
	return func() []spantest.Span {
		x.Flush(t.Context())
		return r.Spans()
	}
}

// doAnyhow runs a unit, which may fail or panic.
func (w *world) doAnyhow(t *testing.T, u work.Unit) {
	t.Helper()
	defer func() { _ = recover() }()
	_, err := w.Do(t.Context(), u)
	t.Log(err)
}
