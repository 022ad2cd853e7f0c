package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// both returns an answer without and with a stream. message is the content of the message, rest is
// what surrounds it.
func both(t *testing.T, message, finish, rest string) (whole, stream llm.Response) {
	t.Helper()
	if rest != "" {
		rest = "," + rest
	}
	m := model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(
		fmt.Sprintf(`{"choices":[{"index":0,"message":%s,"finish_reason":%s}]%s}`, message, finish, rest))))
	whole, err := m.Generate(t.Context(), user("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err = streamed(t, strings.NewReader(
		fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]%s}\n\ndata: [DONE]\n\n", message, finish, rest)))
	if err != nil {
		t.Fatal(err)
	}
	return whole, stream
}

func TestStopReasons(t *testing.T) {
	const said, called = `{"content":"a"}`, `{"tool_calls":[{"index":0,"id":"A","function":{"name":"look","arguments":"{}"}}]}`
	for _, test := range []struct {
		message, finish string
		want            llm.StopReason
	}{
		{said, "stop", llm.StopEndTurn},
		{`{}`, "stop", llm.StopEndTurn},
		{`{"content":null}`, "stop", llm.StopEndTurn},
		{called, "tool_calls", llm.StopToolUse},
		{called, "stop", llm.StopToolUse}, // vLLM, Gemini and others
		{called, "function_call", llm.StopToolUse},
		{said, "tool_calls", llm.StopOther},
		{`{"content":null}`, "tool_calls", llm.StopToolUse}, // the server could not read the model's calls
		{said, "length", llm.StopMaxTokens},
		{called, "length", llm.StopMaxTokens},
		{said, "model_length", llm.StopMaxTokens},
		{said, "content_filter", llm.StopRefusal},
		{said, "content_filter: PROHIBITED_CONTENT", llm.StopRefusal}, // Gemini
		{said, "function_call_filter: MALFORMED_FUNCTION_CALL", llm.StopToolUse},
		{`{"content":null,"refusal":"No."}`, "stop", llm.StopRefusal},
		{said, "something_new", llm.StopOther},
		{called, "something_new", llm.StopOther},
	} {
		whole, stream := both(t, test.message, `"`+test.finish+`"`, "")
		if whole.StopReason != test.want || stream.StopReason != test.want {
			t.Errorf("%s, %s: got %q, streamed %q, want %q", test.message, test.finish, whole.StopReason, stream.StopReason, test.want)
		}
	}
}

func TestTexts(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"assistant","content":"a\u2615\ud83e\udd9c"}`: "a☕🦜",
		`{"content":""}`:                            "",
		`{"refusal":"I can't."}`:                    "I can't.",
		`{"content":"Well. ","refusal":"I can't."}`: "Well. I can't.",
		`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: "ab",
		`{"content":"a","reasoning_content":"hm","reasoning":"hm","audio":null,"annotations":[],"something_new":{"x":[1]}}`:                "a",
		`{"content":"a","tool_calls":null}`: "a",
		`{"content":"a","tool_calls":[]}`:   "a",
	} {
		whole, stream := both(t, message, `"stop"`, "")
		if whole.Text != want || stream.Text != want || whole.Calls != nil || whole.Model != "gpt-4o-mini" {
			t.Errorf("%s: got %+v, streamed %+v, want %q", message, whole, stream, want)
		}
	}
}

func TestUsage(t *testing.T) {
	for usage, want := range map[string]llm.Usage{
		`{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}`:                                                {PromptTokens: 100, CompletionTokens: 20},
		`{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":30}}`:                      {PromptTokens: 70, CompletionTokens: 20, CacheReadTokens: 30},
		`{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":50}}`:                     {PromptTokens: 20, CacheReadTokens: 30, CacheWriteTokens: 50},
		`{"prompt_tokens":100,"prompt_cache_hit_tokens":30,"prompt_cache_miss_tokens":70}`:                               {PromptTokens: 70, CacheReadTokens: 30},
		`{"prompt_tokens":100,"prompt_cache_hit_tokens":30,"prompt_tokens_details":{"cached_tokens":30}}`:                {PromptTokens: 70, CacheReadTokens: 30},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":30}}`:                                              {CacheReadTokens: 30},
		`{"prompt_tokens":100.0,"completion_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":null}`: {PromptTokens: 100},
		`{"prompt_tokens":-5,"completion_tokens":1e300}`:                                                                 {CompletionTokens: 1e9},
		`{}`: {}, `null`: {},
	} {
		whole, stream := both(t, `{"content":"a"}`, `"stop"`, `"usage":`+usage)
		if whole.Usage != want || stream.Usage != want {
			t.Errorf("%s: got %+v, streamed %+v, want %+v", usage, whole.Usage, stream.Usage, want)
		}
	}
}

// Usage comes after the last event, in every event, or elsewhere.
func TestUsageInStreams(t *testing.T) {
	const some, all = `{"prompt_tokens":7,"completion_tokens":1}`, `{"prompt_tokens":7,"completion_tokens":2}`
	want := llm.Usage{PromptTokens: 7, CompletionTokens: 2}
	event := func(delta, finish, rest string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]%s}\n\n", delta, finish, rest)
	}
	for name, stream := range map[string]string{
		"behind":            event(`{"content":"a"}`, `null`, `,"usage":null`) + event(`{}`, `"stop"`, ``) + "data: {\"choices\":[],\"usage\":" + all + "}\n\n",
		"behind, null":      event(`{"content":"a"}`, `null`, ``) + event(`{}`, `"stop"`, ``) + "data: {\"choices\":null,\"usage\":" + all + "}\n\n",
		"in the last":       event(`{"content":"a"}`, `null`, ``) + event(`{}`, `"stop"`, `,"usage":`+all),
		"in every one":      event(`{"content":"a"}`, `null`, `,"usage":`+some) + event(`{}`, `"stop"`, `,"usage":`+all),
		"and then nothing":  event(`{"content":"a"}`, `null`, `,"usage":`+all) + event(`{}`, `"stop"`, `,"usage":{"prompt_tokens":0}`),
		"with reason twice": event(`{"content":"a"}`, `"stop"`, ``) + event(`{"content":""}`, `"stop"`, `,"usage":`+all),
		"in the choice":     event(`{"content":"a"},"usage":`+all, `"stop"`, ``),
	} {
		for _, end := range []string{"data: [DONE]\n\n", ""} {
			got, err := streamed(t, strings.NewReader(stream+end))
			if err != nil || got.Usage != want || got.Text != "a" || got.StopReason != llm.StopEndTurn {
				t.Errorf("%s, %q: got %+v, %v", name, end, got, err)
			}
		}
	}
	got, err := streamed(t, strings.NewReader(chunks(`{"content":"a"}`)))
	if err != nil || got.Usage != (llm.Usage{}) || got.Model != "m" {
		t.Errorf("none: got %+v, %v", got, err)
	}
}

func TestStreamsThatAreNoAnswer(t *testing.T) {
	half := strings.TrimSuffix(chunks(`{"content":"half an answer"}`), "data: [DONE]\n\n")
	ended := func(reason string) string {
		return half + fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", reason)
	}
	for name, test := range map[string]struct {
		stream string
		want   llm.ErrorClass
	}{
		"an error in the stream":   {half + "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n", llm.ClassOverloaded},
		"OpenRouter's":             {half + `data: {"error":{"code":429,"message":"slow"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\ndata: [DONE]\n\n", llm.ClassRateLimit},
		"OpenRouter's, short":      {`data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\ndata: [DONE]\n\n", llm.ClassUnavailable},
		"vLLM's that was stopped":  {ended("abort"), llm.ClassUnavailable},
		"DeepSeek's, short":        {ended("insufficient_system_resource"), llm.ClassUnavailable},
		"vLLM's":                   {half + `data: {"object":"error","message":"maximum context length","type":"BadRequestError","code":400}` + "\n\n", llm.ClassContextTooLong},
		"an event named error":     {"event: error\ndata: {\"error\":\"broken\"}\n\n", llm.ClassUnavailable},
		"no reason why it ends":    {`data: {"choices":[{"index":0,"delta":{"content":"half"}}]}` + "\n\ndata: [DONE]\n\n", llm.ClassUnavailable},
		"the end's mark alone":     {"data: [DONE]\n\n", llm.ClassUnavailable},
		"nothing":                  {"", llm.ClassUnavailable},
		"comments":                 {": ping\n\n: ping\n\n", llm.ClassUnavailable},
		"no JSON":                  {"data: {\n\n", llm.ClassUnavailable},
		"other JSON":               {"data: []\n\n", llm.ClassUnavailable},
		"a member of another type": {`data: {"choices":[{"delta":{"content":7}}]}` + "\n\n", llm.ClassUnavailable},
		"no event at all":          {"<html>Bad gateway</html>", llm.ClassUnavailable},
	} {
		if got, err := streamed(t, strings.NewReader(test.stream)); llm.ClassOf(err) != test.want {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, test.want)
		}
	}
	for body, want := range map[string]llm.ErrorClass{
		``: llm.ClassUnavailable, `{}`: llm.ClassUnavailable, `{"choices":[]}`: llm.ClassUnavailable, `null`: llm.ClassUnavailable, `[]`: llm.ClassUnavailable,
		`{"error":{"code":402,"message":"no money"}}`: llm.ClassBilling,
		`<html>`: llm.ClassUnavailable,
		`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"error"}]}`: llm.ClassUnavailable,
		`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}]}`: llm.ClassUnavailable,
	} {
		m := model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(body)))
		if got, err := m.Generate(t.Context(), user("go"), nil); llm.ClassOf(err) != want {
			t.Errorf("%s: got %+v, %v, want %s", body, got, err, want)
		}
	}
}

// New fields, and other choices, are ignored.
func TestUnknownIsPassedOver(t *testing.T) {
	got, err := streamed(t, strings.NewReader(": OPENROUTER PROCESSING\n\n"+
		`data: {"id":"","object":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`+"\n\n"+
		"event: something\ndata: {\"something\":\"new\"}\n\n"+
		`data: {"choices":[{"index":1,"delta":{"content":"another"},"finish_reason":"length"}]}`+"\n\n"+
		chunks(`{"content":"a","something":{}}`)))
	if err != nil || got.Text != "a" || got.StopReason != llm.StopEndTurn {
		t.Errorf("got %+v, %v", got, err)
	}
}

// One provider never streams, another always does.
func TestTheOtherWayOfAnswering(t *testing.T) {
	m, _ := asking(t, llmtest.JSON(200, wholeAnswer(full())), llmtest.Events(events(full())...))
	var d llmtest.Deltas
	streamed, err := m.Generate(t.Context(), user("go"), d.Add)
	deltas, problem := d.Message()
	if diff := cmp.Diff(full(), streamed); diff != "" || err != nil || problem != nil || !cmp.Equal(deltas, full().Message) {
		t.Errorf("%v, %v, streamed %+v\n%s", err, problem, deltas, diff)
	}
	whole, err := m.Generate(t.Context(), user("go"), nil)
	if diff := cmp.Diff(full(), whole); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
