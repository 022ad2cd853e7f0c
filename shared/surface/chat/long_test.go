package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/thread"
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

// TestInstructionsStayInASmallWindow: of what the model's window has no room for, the oldest messages go first, and what
// the caller instructs stays. Instructions that leave no room for the message are refused before it is taken.
func TestInstructionsStayInASmallWindow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.Window = 16_000 // the history takes 32,000 bytes
		type said struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		brief := said{"system", "Be brief."}
		var spoken []said
		for i := range 10 {
			text := strings.Repeat("x", 4_000)
			spoken = append(spoken, said{"user", fmt.Sprintf("%d?%s", i, text)}, said{"assistant", fmt.Sprintf("%d.%s", i, text)})
		}
		spoken = append(spoken, said{"user", "Hi."})
		list := func(all ...said) string { return string(must(json.Marshal(all))(t)) }
		led := list(append([]said{brief, {"developer", "Be kind."}}, spoken...)...)
		check := func(name string, m *llmtest.Writer, at int, want string) {
			t.Helper()
			told := m.Request(at).Messages
			first, size := told[0].Text, 0
			for _, one := range told {
				size += len(one.Text)
			}
			if !strings.HasPrefix(first, want) || strings.Contains(first, "0?") || size > 33_000 || size < 20_000 {
				t.Errorf("%s: the model is told %d bytes, the first of %d messages is %.40q", name, size, len(told), first)
			}
			if last := told[len(told)-2].Text; !strings.HasPrefix(last, "9.") && at == 0 {
				t.Errorf("%s: the last but one is %.20q", name, last)
			}
		}
		for name, c := range map[string]struct{ path, body, want string }{
			"completions":  {completions, `{"user":"ann","messages":` + led + `}`, "Be brief.\n\nBe kind."},
			"responses":    {responses, `{"user":"bob","input":` + led + `}`, "Be brief.\n\nBe kind."},
			"instructions": {responses, `{"user":"cid","instructions":"Be brief.","input":` + list(spoken...) + `}`, "Be brief."},
		} {
			m := w.think(t, llmtest.Writes("Hello."), llmtest.Writes("Hello again."))
			got := w.post(t, c.path, c.body)
			if got.status != 200 {
				t.Fatalf("%s: %d %s", name, got.status, got.body)
			}
			check(name, m, 0, c.want)
			if name != "instructions" {
				continue
			}
			var r struct{ ID string }
			if err := json.Unmarshal([]byte(got.body), &r); err != nil {
				t.Fatal(err)
			}
			got = w.post(t, responses, `{"user":"cid","instructions":"Be brief.","input":"Go on.","previous_response_id":"`+r.ID+`"}`)
			if got.status != 200 {
				t.Fatalf("%s, again: %d %s", name, got.status, got.body)
			}
			check(name+", again", m, 1, c.want)
		}
		long := said{"system", strings.Repeat("y", 30_000)}
		for path, body := range map[string]string{
			completions: `{"user":"dan","messages":` + list(long, long, said{"user", "Hi."}) + `}`,
			responses:   `{"user":"dan","instructions":"` + strings.Repeat("y", 50_000) + `","input":"Hi."}`,
		} {
			got := w.post(t, path, body)
			if got.status != 400 || !strings.Contains(got.body, `"code":"context_length_exceeded"`) ||
				!strings.Contains(got.body, `"type":"invalid_request_error"`) {
				t.Errorf("%s: %d %s", path, got.status, got.body)
			}
		}
		if all, _, err := w.Threads.List(t.Context(), w.Workspace, thread.Filter{Address: "dan"}); err != nil || len(all) != 0 {
			t.Errorf("%d conversations, %v", len(all), err)
		}
	})
}

// TestInstructionsMayBeAllThatIsSaid: the last of them is answered.
func TestInstructionsMayBeAllThatIsSaid(t *testing.T) {
	w := onOne(t)
	for body, told := range map[string]string{
		`{"input":[{"role":"system","content":"Say hello."}]}`:                               "Say hello.",
		`{"instructions":"Be brief.","input":[{"role":"developer","content":"Say hello."}]}`: "Be brief.\n\nSay hello.",
	} {
		m := w.think(t, llmtest.Writes("Hello."))
		if got := w.post(t, responses, body); got.status != 200 || m.Request(0).Messages[0].Text != told {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

// TestInstructionsAreTakenWhole: more of them than a conversation may have are refused, before the message is taken.
func TestInstructionsAreTakenWhole(t *testing.T) {
	w := onOne(t)
	w.Window = 0 // no window bounds them
	list := func(role, text string, n int) string {
		return strings.Repeat(fmt.Sprintf(`{"role":%q,"content":%q},`, role, text), n) + `{"role":"user","content":"Hi."}`
	}
	for _, c := range []struct {
		role, text string
		n, status  int
	}{
		{"system", "Be brief.", 101, 400}, {"developer", strings.Repeat("y", 50_000), 3, 400},
		{"system", "Be brief.", 100, 200}, {"developer", strings.Repeat("y", 32<<10), 4, 200},
	} {
		for path, body := range map[string]string{
			completions: `{"user":"eve","messages":[` + list(c.role, c.text, c.n) + `]}`,
			responses:   `{"user":"eve","input":[` + list(c.role, c.text, c.n) + `]}`,
		} {
			m := w.think(t, llmtest.Writes("Hello."))
			got := w.post(t, path, body)
			if got.status != c.status || c.status == 400 && !strings.Contains(got.body, `"code":"context_length_exceeded"`) {
				t.Errorf("%s, %d of %d bytes: %d %s", path, c.n, len(c.text), got.status, got.body)
			} else if c.status == 200 && strings.Count(m.Request(0).Messages[0].Text, c.text) != c.n {
				t.Errorf("%s, %d of %d bytes: the model got %d bytes", path, c.n, len(c.text), len(m.Request(0).Messages[0].Text))
			}
		}
		if all, _, err := w.Threads.List(t.Context(), w.Workspace, thread.Filter{Address: "eve"}); err != nil || c.status == 400 && len(all) != 0 {
			t.Errorf("%d conversations, %v", len(all), err)
		}
	}
}
