package openai_test

import (
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
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
