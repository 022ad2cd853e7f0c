package turn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// TestAnAnswerStaysInAFullThread: where as many messages as may wait to be sent, an answer can't leave. The
// turn ends, and its answer stands in the thread.
func TestAnAnswerStaysInAFullThread(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		leaving := visits
		leaving.Deliverable = func(_, _, _ string) error { return nil }
		w.Kinds = append(slices.Clone(w.Kinds), leaving)
		w.think(llmtest.Write(t, llmtest.Writes("Hello, ann.")))
		in := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: leaving.Channel, Address: "ann"}))(t)
		err := w.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			for i := range 1000 {
				if err := w.Threads.Answer(ctx, tx, in, thread.Outgoing{Thread: in.ID, Body: "wait", Key: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := trace.With(t.Context(), traces.New(trace.Chat))
		r, err := w.Runner.Talk(ctx, w.Workspace, turn.Turn{
			Surface: trace.Chat, Lane: lane.Name("session:web:ann"), Message: "Hi.", Thread: in.ID, By: "ann",
		})
		if err != nil || r.Status != execution.Completed || r.Answer != "Hello, ann." {
			t.Errorf("got %+v, %v", r, err)
		}
		if got := w.spoken(t, in.ID); !slices.Equal(got, []string{"user: Hi.", "assistant: Hello, ann."}) {
			t.Errorf("in the thread stands %q", got)
		}
		w.mustBeFree(t)
	})
}
