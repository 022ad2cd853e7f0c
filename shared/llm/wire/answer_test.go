package wire_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

func begin(t *testing.T, a *wire.Answer, id string) string {
	t.Helper()
	at, err := a.Begin(id, "look")
	if err != nil {
		t.Fatal(err)
	}
	return a.Message().Calls[at].ID
}

func TestIDs(t *testing.T) {
	req := llm.Request{Messages: []llm.Message{{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: "old"}}}}}
	a := wire.NewAnswer(req, nil)
	seen := map[string]bool{"old": true}
	for _, id := range []string{"new", "", "new", "old", ""} {
		got := begin(t, &a, id)
		if seen[got] || got == "" || len(got) > 40 || id == "new" && !seen["new"] && got != "new" {
			t.Errorf("%q becomes %q", id, got)
		}
		seen[got] = true
	}
	same, other := wire.NewAnswer(req, nil), wire.NewAnswer(llm.Request{Messages: req.Messages[:0]}, nil)
	one, two := begin(t, &same, ""), begin(t, &other, "")
	if one == two || len(one) != 29 {
		t.Errorf("got %q and %q", one, two)
	}
	again := wire.NewAnswer(req, nil)
	if got := begin(t, &again, ""); got != one {
		t.Errorf("got %q and then %q", one, got)
	}
}

// TestManyCallsWithoutAnID: the ids of an answer's calls cost the conversation's size once, not for each call.
func TestManyCallsWithoutAnID(t *testing.T) {
	const size, calls = 1 << 20, 100
	a := wire.NewAnswer(llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: strings.Repeat("x", size)}}}, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		begin(t, &a, "")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 30*size {
		t.Errorf("the ids of %d calls cost %d times the conversation", calls, used/size)
	}
}

func TestAnswerIsBounded(t *testing.T) {
	mega := strings.Repeat("x", 1<<20)
	for name, grow := range map[string]func(*wire.Answer) error{
		"text":  func(a *wire.Answer) error { return a.AddText(mega) },
		"calls": func(a *wire.Answer) error { _, err := a.Begin("", "look"); return err },
		"names": func(a *wire.Answer) error { _, err := a.Begin("", mega); return err },
		"arguments": func(a *wire.Answer) error {
			if a.Calls() == 0 {
				_, _ = a.Begin("", "look")
			}
			return a.Extend(0, mega)
		},
		"waiting": func(a *wire.Answer) error { return a.Hold(0) },
	} {
		var d llmtest.Deltas
		a := wire.NewAnswer(llm.Request{}, d.Add)
		var err error
		n := 0
		for ; err == nil && n < math.MaxInt16; n++ {
			err = grow(&a)
		}
		if !errors.Is(err, wire.ErrTooMuch) || n < 8 {
			t.Errorf("%s: %v after %d", name, err, n)
		}
		if got, err := d.Message(); err != nil || len(got.Text) > wire.MaxKept {
			t.Errorf("%s: streamed %d, %v", name, len(got.Text), err)
		}
	}
	a := wire.NewAnswer(llm.Request{}, nil)
	if _, err := a.Begin("id", ""); err == nil {
		t.Error("a call without a name is one")
	}
}

func TestWhatIsSent(t *testing.T) {
	for in, want := range map[string]string{
		"save_memory": "save_memory", "functions.get weather": "functions_get_weather", "ä": "_", "": "unnamed",
		strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		if got := wire.ToolName(in); got != want {
			t.Errorf("name %q: got %q", in, got)
		}
	}
	long := strings.Repeat("x", 41)
	for _, id := range []string{"", "functions.look:0", long, "ä"} {
		if got := wire.CallID(id, 40); got == id || len(got) != 29 || got != wire.CallID(id, 40) || got == wire.CallID(id+".", 40) {
			t.Errorf("id %q: got %q", id, got)
		}
	}
	if got := wire.CallID(long, 64); got != long {
		t.Errorf("got %q", got)
	}
	for in, want := range map[llm.Arguments]string{
		`{"a": 1}`: `{"a": 1}`, ` `: `{}`, ``: `{}`, `{"a":"<"`: `{"_raw":"{\"a\":\"<\""}`, `[1]`: `{"_raw":"[1]"}`, "{\"a\":\"\xff\"}": "{\"a\":\"\uFFFD\"}",
	} {
		if got := string(wire.Object(in)); got != want {
			t.Errorf("arguments %q: got %s", in, got)
		}
	}
	for in, want := range map[string]string{
		"": `{"type":"object","properties":{}}`, " ": `{"type":"object","properties":{}}`, ` {"type":"object"} `: `{"type":"object"}`, `{`: ``,
	} {
		if got, err := wire.Schema(llm.Tool{Name: "look", Parameters: []byte(in)}); string(got) != want || (err != nil) != (want == "") {
			t.Errorf("schema %q: got %s, %v", in, got, err)
		}
	}
}
