package skill_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// happened is a call of some minutes ago.
type happened struct {
	status string
	class  string
	took   any // ms
	ago    int // minutes
}

func (w world) log(t testing.TB, ws db.Workspace, name string, calls ...happened) {
	t.Helper()
	var b db.Batch
	for _, c := range calls {
		var output any
		if c.class != "" {
			output = string(skill.ErrorOutput(skill.Class(c.class)))
		}
		b.Exec(w.q.PutActivity, ids(), name, c.status, output, c.took, "hb_0mh8c1v2q_a7x2p1k9d4", (time.Duration(c.ago) * time.Minute).Milliseconds())
	}
	if err := w.DB.Do(t.Context(), ws, &b); err != nil {
		t.Fatal(err)
	}
}

func (w world) health(t testing.TB, name string, days int) skill.Health {
	t.Helper()
	h, err := w.Health(t.Context(), w.Workspace, name, days)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHealthCounts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		if h := w.health(t, "never", 7); h != (skill.Health{}) {
			t.Errorf("without calls: %+v", h)
		}
		const day = 24 * 60
		w.log(t, w.Workspace, "ask",
			happened{"error", "theirs", 10, 8 * day}, // too long ago
			happened{"error", "theirs", 10, 600},
			happened{"success", "", 20, 500},
			happened{"error", "theirs", 30, 400},
			happened{"error", "input", 40, 300},
			happened{"skipped", "", 50, 200},
			happened{"error", "ours", 60, 100},
			happened{"pending_approval", "", nil, 90},
			happened{"error", "rate_limit", nil, 80},
			happened{"error", "", 70, 70},
			happened{"error", "policy", 80, 60},
		)
		w.log(t, w.Workspace, "other", happened{"success", "", 1, 1})
		w.log(t, w.Workspace, "ask_not", happened{"error", "ours", 1, 1})
		h := w.health(t, "ask", 7)
		if h.Calls != 8 || h.Successes != 1 || h.Failures != 7 || h.ConsecutiveFailures != 3 || h.LastErrorClass != skill.Policy {
			t.Errorf("got %+v", h)
		}
		if ago := time.Since(*h.LastErrorAt); ago < time.Hour || ago > time.Hour+5*time.Minute || !h.LastCallAt.Equal(*h.LastErrorAt) {
			t.Errorf("the last error was %s ago, the last call at %v", ago, h.LastCallAt)
		}
		if longer := w.health(t, "ask", 9); longer.Failures != 8 || longer.ConsecutiveFailures != 3 {
			t.Errorf("of more days: %+v", longer)
		}
		w.log(t, w.Workspace, "ask", happened{"success", "", 1, 0})
		if h := w.health(t, "ask", 7); h.ConsecutiveFailures != 0 || h.LastErrorClass != skill.Policy || !h.LastCallAt.After(*h.LastErrorAt) {
			t.Errorf("after a success: %+v", h)
		}
		w.log(t, w.Workspace, "only_errors", happened{"error", "ours", nil, 2}, happened{"error", "theirs", nil, 1})
		if h := w.health(t, "only_errors", 1); h.ConsecutiveFailures != 2 || h.P50 != nil || h.P95 != nil || h.LastErrorClass != skill.Theirs {
			t.Errorf("without a success: %+v", h)
		}
	})
}

// TestAnAnswerWithAFieldOfThatNameCounts: only a failed call can be one that was refused before it
// ran.
func TestAnAnswerWithAFieldOfThatNameCounts(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		var b db.Batch
		for status, output := range map[string]string{"success": `{"refused": 3}`, "error": `{"class": "input", "refused": "arguments"}`} {
			b.Exec(w.q.PutActivity, ids(), "ask", status, output, 10, "hb_0mh8c1v2q_a7x2p1k9d4", 0)
		}
		if err := w.DB.Do(t.Context(), w.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		if h := w.health(t, "ask", 7); h.Calls != 1 || h.Successes != 1 {
			t.Errorf("got %+v", h)
		}
	})
}

func TestPercentilesAreTheNearestRank(t *testing.T) {
	onEach(t, func(t *testing.T, w world) {
		for n, want := range map[int][2]int{1: {1, 1}, 2: {1, 2}, 3: {2, 3}, 10: {5, 10}, 20: {10, 19}, 100: {50, 95}, 101: {51, 96}} {
			name := fmt.Sprintf("s%d", n)
			var calls []happened
			for i := range n {
				calls = append(calls, happened{"success", "", (i*7919)%n + 1, i}) // in no order; 7919 is prime
			}
			w.log(t, w.Workspace, name, calls...)
			h := w.health(t, name, 1)
			if h.P50.Milliseconds() != int64(want[0]) || h.P95.Milliseconds() != int64(want[1]) {
				t.Errorf("of 1 to %d: %s and %s, want %d and %d ms", n, h.P50, h.P95, want[0], want[1])
			}
		}
	})
}

func TestClassOfAnError(t *testing.T) {
	for want, errs := range map[skill.Class][]error{
		skill.Input:  {skill.Refuse("x"), &skill.RefusalError{Reason: "x"}, fmt.Errorf("y: %w", skill.Refuse("x"))},
		skill.Policy: {skill.Fail(skill.Policy, "x")},
		skill.Theirs: {&skill.UncertainError{Reason: "x"}, errors.Join(skill.Fail(skill.Theirs, "x"), errors.New("y"))},
		skill.Ours:   {errors.New("x"), skill.Fail(skill.Ours, "x")},
	} {
		for _, err := range errs {
			if got := skill.ClassOf(err); got != want {
				t.Errorf("%v is of class %s, want %s", err, got, want)
			}
		}
	}
	if got := string(skill.ErrorOutput(skill.RateLimit)); got != `{"class":"rate_limit"}` {
		t.Errorf("output %s", got)
	}
}

func TestPublicConfigShowsNoSecrets(t *testing.T) {
	const canary = "canary-4711"
	for given, want := range map[string]string{
		`{"headers":{"Authorization":"canary-4711"}}`:                                 `{"headers":{"Authorization":"[redacted]"}}`,
		`{"headers":{"x-api-key":"canary-4711","Accept":"application/json"}}`:         `{"headers":{"Accept":"application/json","x-api-key":"[redacted]"}}`,
		`{"headers":{"Cookie":"canary-4711"}}`:                                        `{"headers":{"Cookie":"[redacted]"}}`,
		`{"headers":{"X-Note":"Bearer canary-4711"}}`:                                 `{"headers":{"X-Note":"[redacted]"}}`,
		`{"headers":{"X-Note":"sk-canary-4711"}}`:                                     `{"headers":{"X-Note":"[redacted]"}}`,
		`{"headers":{"X-Note":"4711canary-47110123456789canary-4711"}}`:               `{"headers":{"X-Note":"[redacted]"}}`,
		`{"headers":{"Authorization":{"$secret":"crm"}}}`:                             `{"headers":{"Authorization":{"$secret":"crm"}}}`,
		`{"headers":{"Accept":"application/vnd.github.v3+json"}}`:                     `{"headers":{"Accept":"application/vnd.github.v3+json"}}`,
		`{"url":"https://a.example/{id}?q={q}&x=1"}`:                                  `{"url":"https://a.example/{id}?q={q}&x=1"}`,
		`{"url":"https://a.example/?api_key=canary-4711&x=1"}`:                        `{"url":"https://a.example/?api_key=[redacted]&x=1"}`,
		`{"url":"https://a.example/?key={key}"}`:                                      `{"url":"https://a.example/?key={key}"}`,
		`{"url":"https://me:canary-4711@a.example/"}`:                                 `{"url":"[redacted]"}`,
		`{"functionName":"weather","method":"GET","idempotencyKeyHeader":"X-Key-It"}`: `{"functionName":"weather","idempotencyKeyHeader":"X-Key-It","method":"GET"}`,
		`[]`:   ``,
		`null`: ``,
		``:     ``,
	} {
		got := string(skill.Definition{Config: []byte(given)}.PublicConfig(true))
		if got != want {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
		if strings.Contains(got, canary) {
			t.Errorf("%s shows %s", given, canary)
		}
	}
}
