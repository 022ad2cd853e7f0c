package activity_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestFiltersNarrow(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := newTrace()
		first := entry("one", id)
		second := entry("two", newTrace())
		second.Status, second.Agent = activity.Error, "another"
		third := entry("three", newTrace())
		third.Surface = trace.Chat
		w.write(t, first, second, third)
		w.neighbour(t).write(t, entry("elsewhere", id))
		for name, c := range map[string]struct {
			f    activity.Filter
			want []string
		}{
			"nothing":        {activity.Filter{}, []string{"three", "two", "one"}},
			"trace":          {activity.Filter{Trace: id}, []string{"one"}},
			"skill":          {activity.Filter{Skill: "two"}, []string{"two"}},
			"status":         {activity.Filter{Status: activity.Error}, []string{"two"}},
			"surface":        {activity.Filter{Surface: trace.Chat}, []string{"three"}},
			"agent":          {activity.Filter{Agent: "another"}, []string{"two"}},
			"all that fits":  {activity.Filter{Trace: id, Skill: "one", Status: activity.Success, Surface: trace.Heartbeat, Agent: activity.Operator}, []string{"one"}},
			"one that fails": {activity.Filter{Trace: id, Skill: "two"}, []string{}},
			"a part of it":   {activity.Filter{Skill: "tw"}, []string{}},
			"injection":      {activity.Filter{Skill: "x' OR '1'='1"}, []string{}},
		} {
			if got := w.skills(t, c.f); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	})
}

func TestSinceIsInclusiveAndUntilExclusive(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		at := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)
		for i, name := range []string{"before", "at", "after"} {
			w.putAt(t, name, at.Add(time.Duration(i-1)*time.Microsecond))
		}
		for want, f := range map[string]activity.Filter{
			"after at":        {Since: at},
			"before":          {Until: at},
			"at":              {Since: at, Until: at.Add(time.Microsecond)},
			"":                {Since: at, Until: at},
			"after at before": {Since: at.In(time.FixedZone("east", 7200)).Add(-time.Hour)},
		} {
			if got := strings.Join(w.skills(t, f), " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// putAt records an action at a given time.
func (w world) putAt(t testing.TB, skill string, at time.Time) (id string) {
	t.Helper()
	id = ids()
	if _, err := w.DB.Exec(t.Context(), w.Workspace, w.q.PutAt, id, skill, newTrace(), at); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestWhatWasUsedIsWhatWasCalled: calls that could not be made do not count. Successful calls
// count, whatever they answered. The ends of runs and turns, and what people did, are no calls.
func TestWhatWasUsedIsWhatWasCalled(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		answered, failed, refused := entry("ask", newTrace()), entry("ask", newTrace()), entry("ask", newTrace())
		answered.Output = json.RawMessage(`{"refused": 3}`)
		failed.Status, failed.Output = activity.Error, json.RawMessage(`{"class": "theirs"}`)
		refused.Status, refused.Output = activity.Error, json.RawMessage(`{"class": "input", "refused": "arguments"}`)
		w.write(t, answered, failed, refused, entry("operate", newTrace()), entry("chat", newTrace()), entry("task.create", newTrace()))
		ended, delivered, named := entry("reason", newTrace()), entry("webhook", newTrace()), entry("reason", newTrace())
		ended.Status, delivered.Status, named.SkillID = activity.Error, activity.Error, ids()
		w.write(t, ended, delivered)
		got, err := w.log.Used(t.Context(), w.Workspace, time.Time{})
		if err != nil || len(got) != 1 || got[0].Calls != 2 || got[0].Failures != 1 {
			t.Errorf("used were %+v, %v", got, err)
		}
		w.write(t, named)
		if got, err := w.log.Used(t.Context(), w.Workspace, time.Time{}); err != nil || len(got) != 2 || got[1].Skill != "reason" {
			t.Errorf("with a skill of that name used were %+v, %v", got, err)
		}
	})
}

func TestTextIsFoundLiterallyAnywhere(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		put := func(name string, change func(*activity.Entry)) {
			e := entry(name, newTrace())
			change(&e)
			w.write(t, e)
		}
		put("needle_in_name", func(*activity.Entry) {})
		put("error", func(e *activity.Entry) { e.Error = "100% of C:\\temp" })
		put("input", func(e *activity.Entry) { e.Input = []byte(`{"who": "Ärger & <Co>"}`) })
		put("output", func(e *activity.Entry) { e.Output = []byte(`{"list": ["a_b", "aXb"]}`) })
		put("escaped", func(e *activity.Entry) { e.Output = []byte(`{"who": "\u00c4rger \u003cCo\u003e"}`) })
		put("other", func(e *activity.Entry) { e.Error = "1000 of C:/temp"; e.Input = []byte(`"axb"`) })
		for text, want := range map[string]string{
			"needle":     "needle_in_name",
			"NEEDLE_IN":  "needle_in_name",
			"100%":       "error",
			"% OF c":     "error",
			`c:\t`:       "error",
			"Ärger":      "escaped input",
			"<co>":       "escaped input",
			"a_b":        "output",
			"axb":        "other output",
			"%":          "error",
			"_":          "needle_in_name output",
			`\`:          "error",
			"needleX":    "",
			"x\x00":      "",
			"x' OR 1=1 ": "",
		} {
			got := w.skills(t, activity.Filter{Text: text})
			slices.Sort(got)
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%q finds %q, want %q", text, s, want)
			}
		}
	})
}

func TestPagesThroughEqualTimesLoseAndRepeatNothing(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		var want []string
		for i := range 23 {
			want = append(want, w.putAt(t, fmt.Sprint(i), at.Add(time.Duration(i/10)*time.Microsecond)))
		}
		slices.Reverse(want) // ids rise
		for _, limit := range []int{1, 2, 7, 10, 22, 23, 24} {
			var got []string
			var before db.Position
			for pages := 0; ; pages++ {
				p := w.list(t, activity.Filter{Before: before, Limit: limit})
				if len(p.Items) > limit || pages > 30 {
					t.Fatalf("page %d of %d has %d items", pages, limit, len(p.Items))
				}
				for _, e := range p.Items {
					got = append(got, e.ID)
				}
				if pages == 0 {
					w.putAt(t, "later", at.Add(time.Hour)) // entries that arrive meanwhile shift nothing
				}
				if !p.More {
					break
				}
				last := p.Items[len(p.Items)-1]
				before = db.Position{At: last.CreatedAt, ID: last.ID}
			}
			got = slices.DeleteFunc(got, func(id string) bool { return !slices.Contains(want, id) })
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d bring %d items in another order", limit, len(got))
			}
		}
	})
}

func TestTheLastPageHasNoNext(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		w.write(t, entry("a", newTrace()), entry("b", newTrace()))
		if p := w.list(t, activity.Filter{Limit: 2}); len(p.Items) != 2 || p.More {
			t.Errorf("%d items, more %t", len(p.Items), p.More)
		}
		if p := w.neighbour(t).list(t, activity.Filter{Limit: 2}); len(p.Items) != 0 || p.More {
			t.Errorf("a neighbour sees %d items, more %t", len(p.Items), p.More)
		}
	})
}

func TestAListingIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var b db.Batch
		for range 210 {
			w.log.Record(t.Context(), &b, entry("x", newTrace()))
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		for limit, want := range map[int]int{0: 50, -1: 50, -1000: 50, 3: 3, 200: 200, 201: 200, 1 << 40: 200} {
			if p := w.list(t, activity.Filter{Limit: limit}); len(p.Items) != want || !p.More {
				t.Errorf("limit %d brings %d items, want %d", limit, len(p.Items), want)
			}
		}
	})
}

func TestConversationIsTheTrace(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := newTrace()
		w.write(t, entry("first", id), entry("other", newTrace()), entry("second", id))
		w.neighbour(t).write(t, entry("elsewhere", id))
		var got []string
		err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var skill, status, conversation, traced string
			err := scan(&skill, &status, &conversation, &traced)
			if conversation != traced || traced != string(id) {
				t.Errorf("conversation %s of trace %s", conversation, traced)
			}
			got = append(got, skill)
			return err
		}, w.q.Story, id)
		if err != nil || !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("the story is %q (%v)", got, err)
		}
	})
}

func TestAStoryIsToldInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		id := newTrace()
		var b db.Batch
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			w.log.Record(t.Context(), &b, entry(want[i], id))
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range w.story(t, id) {
			got = append(got, e.Skill)
		}
		if !slices.Equal(got, want) {
			t.Errorf("told as %q", got)
		}
	})
}
