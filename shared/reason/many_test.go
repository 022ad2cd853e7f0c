package reason_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// An answer with very many calls makes only the first of them, and the model is told so. It neither fills
// the queue of calls, which would end the run, nor keeps others out of it.
func TestAnAnswerWithVeryManyCalls(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var made counts
		job := w.job(t, skill.Skill{Name: "count", Description: "count", Parameters: []byte(anything),
			Do: func(context.Context, skill.Call) (any, error) {
				made.add("count")
				return "ok", nil
			}})
		var calls []string
		for i := range 1200 {
			calls = append(calls, "count", fmt.Sprintf(`{"n": %d}`, i))
		}
		m := llmtest.Script(t, llmtest.Call(calls...), llmtest.Say("done"))
		if out := w.run(t, m, job); out.Status != execution.Completed {
			t.Errorf("got %+v", out)
		}
		if n := made.of("count"); n != 100 {
			t.Errorf("%d calls were made", n)
		}
		messages := m.Requests()[1].Messages
		asked, results := messages[1].Calls, messages[2].Results
		if len(asked) != len(results) || len(results) > 101 {
			t.Fatalf("%d calls have %d results", len(asked), len(results))
		}
		if last := results[len(results)-1]; !last.IsError || !strings.Contains(last.Content, "100 calls") {
			t.Errorf("the model is told %q", last.Content)
		}
	})
}
