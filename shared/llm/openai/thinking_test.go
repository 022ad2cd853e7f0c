package openai_test

import (
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
)

// TestThinkingWithinTheText is no part of the answer: Ollama, vLLM and LM Studio leave it there for models whose
// thinking they do not parse.
func TestThinkingWithinTheText(t *testing.T) {
	for text, want := range map[string]string{
		"<think>\nThe user is rude.\n</think>\n\nHello.":      "Hello.",
		"\n<think></think>Hello.\n":                           "Hello.\n",
		"<think>a < b, </thin, <think></think> \n<b>Hi</b>":   "<b>Hi</b>",
		"<reasoning>A < b.</think></reasoning>Hello.":         "Hello.",
		"<reason>It is.</reason>":                             "<reason>It is.</reason>",
		"<think>It was cut off":                               "",
		"<think>":                                             "",
		"<thin":                                               "<thin",
		" \n":                                                 " \n",
		"<thinking about it>":                                 "<thinking about it>",
		"Write <think>a thought</think> before.":              "Write <think>a thought</think> before.",
		"<think>One.</think>Two. <think>Three.</think> Four.": "Two. <think>Three.</think> Four.",
		"</think>\n\nHello.":                                  "Hello.",
	} {
		for _, size := range []int{1, 3, 1000} {
			var deltas []string
			for _, p := range llmtest.Pieces(text, size) {
				deltas = append(deltas, `{"content":`+quote(p)+`}`)
			}
			if got, err := streamed(t, strings.NewReader(chunks(deltas...))); err != nil || got.Text != want {
				t.Errorf("%q in pieces of %d: got %q, %v", text, size, got.Text, err)
			}
		}
		m, _ := asking(t, llmtest.JSON(200, wholeAnswer(llm.Response{Message: llm.Message{Text: text}, StopReason: llm.StopEndTurn, Model: "m"})))
		if got, err := m.Generate(t.Context(), user("go"), nil); err != nil || got.Text != want {
			t.Errorf("%q whole: got %q, %v", text, got.Text, err)
		}
	}
}

// TestThinkingKeepsAnAnswerAlive: a piece of it says that the model works.
func TestThinkingKeepsAnAnswerAlive(t *testing.T) {
	m := model(t, "http://host.invalid", llmtest.Answering("text/event-stream", strings.NewReader(chunks(
		`{"content":"<think>"}`, `{"content":"Hm."}`, `{"content":"Hm."}`, `{"content":"</think>Hi."}`))))
	n := 0
	if _, err := m.Generate(t.Context(), user("go"), func(llm.Delta) { n++ }); err != nil || n < 4 {
		t.Errorf("%d deltas, %v", n, err)
	}
}

// TestAThoughtThatBeginsInTheTemplate: the model sends its end only. Servers that do not parse it leave it in the text.
func TestAThoughtThatBeginsInTheTemplate(t *testing.T) {
	const led = "Okay, the user is rude.\n</think>\n\nHello."
	stream := func(text string, size int) string {
		var deltas []string
		for _, p := range llmtest.Pieces(text, size) {
			deltas = append(deltas, `{"content":`+quote(p)+`}`)
		}
		return chunks(deltas...)
	}
	ask := func(m *openai.Model, name string) (llm.Response, llmtest.Deltas) {
		t.Helper()
		var d llmtest.Deltas
		req := user("go")
		req.Model = name
		got, err := m.Generate(t.Context(), req, d.Add)
		if told, problem := d.Message(); err != nil || problem != nil || told.Text != got.Text {
			t.Fatalf("%v, %v: told %q of %q", err, problem, told.Text, got.Text)
		}
		return got, d
	}
	for _, size := range []int{1, 5, 1000} {
		// known by its name: nothing of it is told, unless the server keeps the thought apart
		m, _ := asking(t, llmtest.Events(stream(led, size)), llmtest.Events(stream("Hello.", size)), llmtest.Events(stream("<think>Hm.</think>Hello.", size)),
			llmtest.Events(chunks(`{"reasoning_content":"Hm."}`, `{"content":"Hel"}`, `{"content":"lo."}`)))
		for i := range 4 {
			if got, d := ask(m, "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"); got.Text != "Hello." || d.Restarts > 0 {
				t.Errorf("%d in pieces of %d: got %q, %d restarts", i, size, got.Text, d.Restarts)
			}
		}
		// not known: it is withdrawn, and known from then on, until the model answers without it
		m, _ = asking(t, llmtest.Events(stream(led, size)), llmtest.Events(stream(led, size)), llmtest.Events(stream("Hello.", size)),
			llmtest.Events(stream(led, size)))
		for i, restarts := range []int{1, 0, 0, 1} {
			if got, d := ask(m, "homegrown"); got.Text != "Hello." || d.Restarts != restarts {
				t.Errorf("%d in pieces of %d: got %q, %d restarts", i, size, got.Text, d.Restarts)
			}
		}
		// the words of an answer about it stay
		for _, text := range []string{
			"It ends with\n```\n</think>\n```\nand so on.", "<p>\n<think>\nHm.\n</think>\n", "It ends with </think>, on no line of its own.",
		} {
			m, _ = asking(t, llmtest.Events(stream(text, size)))
			if got, d := ask(m, "homegrown"); got.Text != text || d.Restarts > 0 {
				t.Errorf("%q in pieces of %d: got %q, %d restarts", text, size, got.Text, d.Restarts)
			}
		}
	}
	// whole, beside calls, and cut off within the thought
	whole := llm.Response{Message: llm.Message{Text: led, Calls: []llm.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}}}, StopReason: llm.StopToolUse, Model: "m"}
	m, _ := asking(t, llmtest.JSON(200, wholeAnswer(whole)), llmtest.Events(events(whole)...))
	for range 2 {
		if got, _ := ask(m, "qwq-32b"); got.Text != "Hello." || len(got.Calls) != 1 {
			t.Errorf("got %+v", got)
		}
	}
	whole.Text = "Okay.\n</think>"
	m, _ = asking(t, llmtest.Events(events(whole)...))
	if got, _ := ask(m, "homegrown"); got.Text != "" || len(got.Calls) != 1 || got.Calls[0].Name != "look" {
		t.Errorf("got %+v", got)
	}
	m, _ = asking(t, llmtest.JSON(200, wholeAnswer(llm.Response{Message: llm.Message{Text: "Okay, the us"}, StopReason: llm.StopMaxTokens, Model: "m"})))
	if got, _ := ask(m, "qwq-32b"); got.Text != "" || got.StopReason != llm.StopMaxTokens {
		t.Errorf("got %+v", got)
	}
}
