package execution_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// names returns the subjects of a listing, in order.
func (w world) names(t testing.TB, f execution.Filter) (out []lane.Name, more bool) {
	t.Helper()
	items, more, err := w.runs.List(t.Context(), w.Workspace, f)
	if err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	for _, e := range items {
		out = append(out, e.Subject)
	}
	return out, more
}

func TestExecutionsAreListedNewestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var all []execution.Execution
		for i, name := range []lane.Name{"objective:a", "objective:b", "objective:c", "objective:d"} {
			e := newExecution(name)
			if i == 1 {
				e.Agent, e.Surface = "another", trace.Operate
			}
			w.start(t, w.hold(t, name), e)
			all = append(all, w.get(t, e.ID))
			w.Skew.Advance(time.Minute)
		}
		w.become(t, all[2].ID, execution.Parked)
		for name, c := range map[string]struct {
			f    execution.Filter
			want string
		}{
			"all":     {execution.Filter{}, "dcba"},
			"agent":   {execution.Filter{Agent: "another"}, "b"},
			"surface": {execution.Filter{Surface: trace.Heartbeat}, "dca"},
			"status":  {execution.Filter{Status: execution.Parked}, "c"},
			"trace":   {execution.Filter{Trace: all[3].Trace}, "d"},
			"subject": {execution.Filter{Subject: "objective:a"}, "a"},
			"since":   {execution.Filter{Since: all[2].CreatedAt}, "dc"},
			"until":   {execution.Filter{Until: all[2].CreatedAt}, "ba"},
			"both":    {execution.Filter{Since: all[1].CreatedAt, Until: all[3].CreatedAt, Agent: "flowpilot"}, "c"},
			"none":    {execution.Filter{Agent: "another", Status: execution.Parked}, ""},
		} {
			found, more := w.names(t, c.f)
			got := ""
			for _, name := range found {
				got += string(name[len(name)-1:])
			}
			if got != c.want || more {
				t.Errorf("by %s it lists %s, and more: %v", name, got, more)
			}
		}
		var pages [][]lane.Name
		f := execution.Filter{Limit: 3}
		for more := true; more; {
			var page []lane.Name
			page, more = w.names(t, f)
			pages = append(pages, page)
			i := slices.IndexFunc(all, func(e execution.Execution) bool { return e.Subject == page[len(page)-1] })
			f.Before = db.Position{At: all[i].CreatedAt, ID: all[i].ID}
		}
		if len(pages) != 2 || len(pages[0]) != 3 || !slices.Equal(pages[1], []lane.Name{"objective:a"}) {
			t.Errorf("the pages are %q", pages)
		}
		if found, _ := w.neighbour(t).names(t, execution.Filter{}); len(found) > 0 {
			t.Errorf("a neighbour lists %q", found)
		}
	})
}

func TestWhatIsUnfinishedIsCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for _, status := range statuses {
			name := lane.Name("objective:" + string(status))
			e := w.start(t, w.hold(t, name), newExecution(name))
			w.become(t, e.ID, status)
			before := w.get(t, e.ID)
			cancel := func(w world) {
				var b db.Batch
				w.runs.Cancel(&b, name, "a person wants it")
				if err := w.DB.Do(context.Background(), w.Workspace, &b); err != nil {
					t.Fatal(err)
				}
			}
			cancel(w.neighbour(t))
			if got := w.get(t, e.ID); got.Status != status {
				t.Errorf("a neighbour makes it %s", got.Status)
			}
			cancel(w)
			switch got := w.get(t, e.ID); {
			case status.Ended() && (got.Status != status || got.Error != before.Error):
				t.Errorf("%s became %+v", status, got)
			case !status.Ended() && (got.Status != execution.Cancelled || got.EndedAt == nil || got.Error != "a person wants it"):
				t.Errorf("%s became %+v", status, got)
			}
		}
	})
}
