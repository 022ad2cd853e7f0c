package anthropic_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// whole returns the answer for a body that is not streamed.
func whole(t *testing.T, body string) (llm.Response, error) {
	t.Helper()
	return model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(body))).Generate(t.Context(), user("go"), nil)
}

func TestStopReasons(t *testing.T) {
	const said, called = `{"type":"text","text":"a"}`, `{"type":"tool_use","id":"A","name":"look","input":{}}`
	for _, test := range []struct {
		block, reason string
		want          llm.StopReason
	}{
		{said, "end_turn", llm.StopEndTurn},
		{called, "tool_use", llm.StopToolUse},
		{called, "end_turn", llm.StopToolUse},
		{said, "tool_use", llm.StopOther},
		{said, "max_tokens", llm.StopMaxTokens},
		{called, "max_tokens", llm.StopMaxTokens},
		{said, "model_context_window_exceeded", llm.StopMaxTokens},
		{said, "stop_sequence", llm.StopSequence},
		{said, "refusal", llm.StopRefusal},
		{called, "refusal", llm.StopRefusal},
		{said, "pause_turn", llm.StopOther},
		{said, "something_new", llm.StopOther},
	} {
		one, err := whole(t, fmt.Sprintf(`{"type":"message","content":[%s],"stop_reason":%q}`, test.block, test.reason))
		stream, errStream := streamed(t, strings.NewReader(ended(test.reason, start(0, test.block), stop(0))))
		if err != nil || errStream != nil || one.StopReason != test.want || stream.StopReason != test.want || !cmp.Equal(one.Message, stream.Message) {
			t.Errorf("%s, %s: got %+v, %v, streamed %+v, %v, want %q", test.block, test.reason, one, err, stream, errStream, test.want)
		}
	}
	// Without a stop reason, only an answer that is not streamed is known to be complete.
	for block, want := range map[string]llm.StopReason{said: llm.StopOther, called: llm.StopToolUse} {
		if got, err := whole(t, `{"type":"message","content":[`+block+`],"stop_reason":null}`); err != nil || got.StopReason != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestWholeAnswers(t *testing.T) {
	for content, want := range map[string]llm.Message{
		`[]`:   {},
		`null`: {},
		`[{"type":"text","text":"a\u2615"},{"type":"text","text":"b","citations":[{"type":"char_location"}]}]`: {Text: "a☕b"},
		`[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"redacted_thinking","data":"x"},` +
			`{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"something_new","text":"no"},{"type":"text","text":"a"}]`: {Text: "a"},
		`[{"type":"text","text":"Both."},{"type":"tool_use","id":"A","name":"one","input":{"x": 1.50}},{"type":"tool_use","id":"B","name":"two","input":{}}]`: {
			Text: "Both.", Calls: []llm.ToolCall{{ID: "A", Name: "one", Arguments: `{"x": 1.50}`}, {ID: "B", Name: "two", Arguments: `{}`}}},
		`[{"type":"tool_use","id":"A","name":"one"},{"type":"tool_use","id":"B","name":"two","input":"no object"}]`: {
			Calls: []llm.ToolCall{{ID: "A", Name: "one"}, {ID: "B", Name: "two", Arguments: `"no object"`}}},
	} {
		got, err := whole(t, `{"id":"msg","type":"message","role":"assistant","content":`+content+`,"stop_reason":"end_turn","container":null,"something":7}`)
		want.Role = llm.RoleAssistant
		if diff := cmp.Diff(want, got.Message); diff != "" || err != nil || got.Model != "claude-sonnet-4-5" {
			t.Errorf("%s: %+v, %v (- want, + got)\n%s", content, got, err, diff)
		}
	}
}

// The counts of the last event are for the whole answer. Counts that it lacks are in the first
// event.
func TestUsage(t *testing.T) {
	for _, test := range []struct {
		first, last string
		want        llm.Usage
	}{
		{`{"input_tokens":7,"output_tokens":1}`, `{"output_tokens":20}`, llm.Usage{PromptTokens: 7, CompletionTokens: 20}},
		{`{"input_tokens":7,"output_tokens":1,"cache_read_input_tokens":300,"cache_creation_input_tokens":4000}`, `{"output_tokens":20}`,
			llm.Usage{PromptTokens: 7, CompletionTokens: 20, CacheReadTokens: 300, CacheWriteTokens: 4000}},
		{`{"input_tokens":7,"output_tokens":1}`, `{"input_tokens":9,"output_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":null}`,
			llm.Usage{PromptTokens: 9, CompletionTokens: 20, CacheReadTokens: 300}},
		{`{"input_tokens":7,"output_tokens":5}`, `{"input_tokens":0,"output_tokens":0}`, llm.Usage{PromptTokens: 7, CompletionTokens: 5}},
		{`{"input_tokens":-7}`, `{"output_tokens":2}`, llm.Usage{CompletionTokens: 2}},
		{`null`, `{"input_tokens":7,"output_tokens":2}`, llm.Usage{PromptTokens: 7, CompletionTokens: 2}},
		{`null`, `null`, llm.Usage{}},
	} {
		got, err := streamed(t, strings.NewReader(event("message_start", `,"message":{"content":[],"usage":`+test.first+`}`)+
			event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":`+test.last)+event("message_stop", "")))
		if err != nil || got.Usage != test.want {
			t.Errorf("%s, %s: got %+v, %v", test.first, test.last, got.Usage, err)
		}
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	said := start(0, `{"type":"text","text":"half an answer"}`)
	for name, test := range map[string]struct {
		stream string
		want   llm.ErrorClass
	}{
		"overloaded on the way":    {said + event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"`), llm.ClassOverloaded},
		"broken on the way":        {said + event("error", `,"error":{"type":"api_error","message":"Internal server error"}`), llm.ClassUnavailable},
		"too slow on the way":      {said + event("error", `,"error":{"type":"timeout_error","message":"?"}`), llm.ClassUnavailable},
		"an error by name":         {"event: error\ndata: {\"error\":{\"type\":\"rate_limit_error\"}}\n\n", llm.ClassRateLimit},
		"no message_stop":          {said + event("message_delta", `,"delta":{"stop_reason":"end_turn"}`), llm.ClassUnavailable},
		"no reason why it ends":    {said + event("message_stop", ""), llm.ClassUnavailable},
		"a call without a name":    {ended("tool_use", start(0, `{"type":"tool_use","id":"A","input":{}}`)), llm.ClassUnavailable},
		"nothing":                  {"", llm.ClassUnavailable},
		"pings":                    {strings.Repeat(event("ping", ""), 9), llm.ClassUnavailable},
		"no JSON":                  {"event: message_start\ndata: {\n\n", llm.ClassUnavailable},
		"other JSON":               {"data: []\n\n", llm.ClassUnavailable},
		"a member of another type": {event("content_block_delta", `,"index":"x"`), llm.ClassUnavailable},
		"no event at all":          {"<html>Bad gateway</html>", llm.ClassUnavailable},
	} {
		if got, err := streamed(t, strings.NewReader(test.stream)); llm.ClassOf(err) != test.want {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, test.want)
		}
	}
	for body, want := range map[string]llm.ErrorClass{
		``: llm.ClassUnavailable, `{}`: llm.ClassUnavailable, `null`: llm.ClassUnavailable, `[]`: llm.ClassUnavailable, `<html>`: llm.ClassUnavailable,
		`{"type":"message","content":"text"}`:            llm.ClassUnavailable,
		`{"type":"completion","completion":"text"}`:      llm.ClassUnavailable,
		anthropicError("overloaded_error", "Overloaded"): llm.ClassOverloaded,
	} {
		if got, err := whole(t, body); llm.ClassOf(err) != want {
			t.Errorf("%s: got %+v, %v, want %s", body, got, err, want)
		}
	}
}

// One proxy never streams, another always does.
func TestTheOtherWayOfAnswering(t *testing.T) {
	want := full()
	want.Calls[1].Arguments = `{"b":1}`
	m, _ := asking(t, llmtest.JSON(200, wholeAnswer(want)), llmtest.Events(events(want)...))
	var d llmtest.Deltas
	one, err := m.Generate(t.Context(), user("go"), d.Add)
	deltas, problem := d.Message()
	if diff := cmp.Diff(want, one); diff != "" || err != nil || problem != nil || !cmp.Equal(deltas, want.Message) {
		t.Errorf("%v, %v, streamed %+v\n%s", err, problem, deltas, diff)
	}
	two, err := m.Generate(t.Context(), user("go"), nil)
	if diff := cmp.Diff(want, two); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
