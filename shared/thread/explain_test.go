package thread_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/thread"
)

func (w *world) explain(t *testing.T, th string) thread.Explanation {
	t.Helper()
	e, err := w.threads.Explain(t.Context(), w.Workspace, th, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTwoAgentsCrossed: each agent holds a thread and has a message queued in the other's thread.
func TestTwoAgentsCrossed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b := w.begin(t, "", false), w.begin(t, "", false)
		one, two := w.open(t, "1"), w.open(t, "2")
		w.mustLock(t, one, a, thread.Acquired)
		w.mustLock(t, two, b, thread.Acquired)
		w.queue(t, two, a, "from a", 1)
		if e := w.explain(t, one); !slices.Equal(e.Blocking, []thread.Blocked{{Execution: a, Thread: two, Holder: b}}) || len(e.Circle) > 0 {
			t.Errorf("blocking %+v, circle %q", e.Blocking, e.Circle)
		}
		w.queue(t, one, b, "from b", 1)
		for th, c := range map[string][]string{one: {a, two, b, one}, two: {b, one, a, two}} {
			e := w.explain(t, th)
			want := []thread.Blocked{{Execution: c[0], Thread: c[1], Holder: c[2]}, {Execution: c[2], Thread: c[3], Holder: c[0]}}
			if !slices.Equal(e.Blocking, want) || !slices.Equal(e.Circle, []string{c[0], c[2]}) {
				t.Errorf("blocking %+v, circle %q, want %+v", e.Blocking, e.Circle, want)
			}
			said := "; execution " + c[0] + " has a message queued in thread " + c[1] + ", which execution " + c[2] + " holds" +
				"; execution " + c[2] + " has a message queued in thread " + c[3] + ", which execution " + c[0] + " holds" +
				"; they wait for each other in a circle"
			if !strings.Contains(e.Summary, said) {
				t.Errorf("%q does not say %q", e.Summary, said)
			}
		}
		w.complete(t, b)
		if e := w.explain(t, one); len(e.Blocking)+len(e.Circle) > 0 || strings.Contains(e.Summary, "circle") {
			t.Errorf("then blocking %+v, circle %q: %s", e.Blocking, e.Circle, e.Summary)
		}
	})
}

// TestTheWholeChainIsTold follows threads, and executions that others wait for.
func TestTheWholeChainIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		a, b, d := w.begin(t, "", false), w.begin(t, "", false), w.begin(t, "", false)
		one, two, three := w.open(t, "1"), w.open(t, "2"), w.open(t, "3")
		w.mustLock(t, one, a, thread.Acquired)
		w.mustLock(t, two, b, thread.Acquired)
		w.mustLock(t, three, d, thread.Acquired)
		w.queue(t, two, a, "from a", 1)
		c := w.begin(t, b, true)
		w.queue(t, three, c, "from c", 1)
		e := w.explain(t, one)
		want := []thread.Blocked{{Execution: a, Thread: two, Holder: b}, {Execution: b, Holder: c}, {Execution: c, Thread: three, Holder: d}}
		if !slices.Equal(e.Blocking, want) || len(e.Circle) > 0 {
			t.Errorf("blocking %+v, circle %q, want %+v", e.Blocking, e.Circle, want)
		}
		if said := "; execution " + b + " waits for execution " + c; !strings.Contains(e.Summary, said) || strings.Contains(e.Summary, "circle") {
			t.Errorf("%q does not say %q", e.Summary, said)
		}
		w.end(t, a, "failed")
		if e := w.explain(t, one); len(e.Blocking) > 0 {
			t.Errorf("the thread is free, and blocking is %+v", e.Blocking)
		}
	})
}
