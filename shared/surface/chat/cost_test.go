package chat_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestWhatAMessageCosts the database: the limits, the conversation and the turn.
func TestWhatAMessageCosts(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.think(t, llmtest.Writes("1"), llmtest.Writes("2"), llmtest.Writes("3"))
		const hi = `{"messages":[{"role":"user","content":"Hi."}]}`
		w.post(t, completions, hi, "X-Session-Id", "ann")
		before := w.Env.DB.Stats()
		w.post(t, completions, hi, "X-Session-Id", "ann")
		cost := w.Env.DB.Stats().Sub(before)
		t.Logf("%+v", cost)
		if cost.RoundTrips > 11 || cost.Statements > 40 {
			t.Errorf("a message costs %+v", cost)
		}
	})
}
