package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// TestALongConversationGoesOn: clients send all of it each time. Its instructions and its newest messages count, and
// none is stored twice.
func TestALongConversationGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type said struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		all := []said{{"system", "Be brief."}}
		for i := range 150 {
			all = append(all, said{"user", fmt.Sprintf("%d?", i)}, said{"assistant", fmt.Sprintf("%d.", i)})
		}
		for path, list := range map[string]string{completions: "messages", responses: "input"} {
			m := w.think(t, llmtest.Writes("One."), llmtest.Writes("Two."))
			thread := ""
			for i, message := range []string{"1", "2"} {
				sent := append(slices.Clone(all), said{"user", message})
				if message == "2" {
					sent = append(slices.Clone(all), said{"user", "1"}, said{"assistant", "One."}, said{"user", "2"})
				}
				got := w.post(t, path, fmt.Sprintf(`{"user":%q,%q:%s}`, path, list, must(json.Marshal(sent))(t)))
				if got.status != 200 {
					t.Fatalf("%s: %d %s", path, got.status, got.body)
				}
				thread = got.header.Get("X-Thread-Id")
				told := m.Request(i).Messages
				if first := told[0].Text; len(told) != 201 || first[:9] != "Be brief." {
					t.Errorf("%s: the model is told %d messages, the first is %q", path, len(told), first)
				}
			}
			if got := must(w.Threads.Lately(t.Context(), w.Workspace, thread, 1000))(t); len(got) != 200+4 || got[0].Body != "Be brief." {
				t.Errorf("%s: %d messages are stored", path, len(got))
			}
		}
	})
}
