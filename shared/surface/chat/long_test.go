package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// TestALargeConversationGoesOn: of what clients send, as much counts as before, from its end, and its instructions.
func TestALargeConversationGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		type said struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		all := []said{{"system", "Be brief."}}
		text := strings.Repeat("x", 8<<10)
		for i := range 100 {
			all = append(all, said{"user", fmt.Sprintf("%d?%s", i, text)}, said{"assistant", fmt.Sprintf("%d.%s", i, text)})
		}
		all = append(all, said{"user", "Hi."})
		w.Window = 0 // of which the history takes a part
		for path, list := range map[string]string{completions: "messages", responses: "input"} {
			m := w.think(t, llmtest.Writes("One."))
			body := fmt.Sprintf(`{"user":%q,%q:%s}`, path, list, must(json.Marshal(all))(t))
			if got := w.post(t, path, body); got.status != 200 || len(body) < 1<<20 {
				t.Fatalf("%s of %d bytes: %d %s", path, len(body), got.status, got.body)
			}
			size, told := 0, m.Request(0).Messages
			for _, one := range told {
				size += len(one.Text)
			}
			if first := told[0].Text; size > 256<<10 || size < 200<<10 || !strings.HasPrefix(first, "Be brief.") {
				t.Errorf("%s: the model is told %d bytes, the first is %.20q", path, size, first)
			}
			if last := told[len(told)-2].Text; !strings.HasPrefix(last, "99.") {
				t.Errorf("%s: the last but one is %.20q", path, last)
			}
		}
		if got := w.post(t, messages, `{"message":"`+strings.Repeat("x", 256<<10)+`"}`); got.status != 413 { // it brings one message only
			t.Errorf("one message: %d %s", got.status, got.body)
		}
	})
}
