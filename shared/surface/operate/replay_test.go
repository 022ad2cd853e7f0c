package operate_test

import (
	"context"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
)

// quietly answers without writing.
func quietly(err error) llmtest.Writing {
	return func(context.Context, llm.Request, func(string)) (llm.Response, error) {
		return llmtest.Written("so"), err
	}
}

// TestAReplayThatFailsHalfWaySaysWhatItUsed.
func TestAReplayThatFailsHalfWaySaysWhatItUsed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), llmtest.Writes("Noted.")))
		r := w.said(t, "Note x.")
		w.think(llmtest.Write(t, quietly(nil), quietly(&llm.Error{Class: llm.ClassOverloaded})))
		if _, err := w.Replay(t.Context(), w.Workspace, r.Trace, "", operate.Variation{}); llm.ClassOf(err) != llm.ClassOverloaded {
			t.Errorf("it is %v", err)
		}
		told := w.actions(t, "trace.replay")
		if len(told) != 1 || told[0].Status != activity.Error || told[0].Error != "the model failed: overloaded" || told[0].Usage.TotalTokens != 15 {
			t.Errorf("the log says %+v", told)
		}
		w.Reason.Switches = func(context.Context, db.Workspace) (reason.Halts, error) { return stopped{}, nil }
		if _, err := w.Replay(t.Context(), w.Workspace, r.Trace, "", operate.Variation{}); err == nil {
			t.Error("what is switched off was asked")
		}
		if told = w.actions(t, "trace.replay"); len(told) != 2 || told[0].Error != "it is stopped" || told[0].Usage.TotalTokens != 0 {
			t.Errorf("then the log says %+v", told)
		}
	})
}

// stopped is everything.
type stopped struct{}

func (stopped) Run(string, ...string) string { return "it is stopped" }
func (stopped) Skill(string) string          { return "" }
