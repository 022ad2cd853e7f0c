package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// streamed returns the answer of a stream, after comparing it with its deltas.
func streamed(t testing.TB, in io.Reader) (llm.Response, error) {
	t.Helper()
	var d llmtest.Deltas
	resp, err := model(t, "http://host.invalid", llmtest.Answering("text/event-stream", in)).Generate(t.Context(), user("go"), d.Add)
	if err != nil {
		if resp.Text != "" || resp.Calls != nil {
			t.Errorf("an answer beside the error: %+v", resp)
		}
		return resp, err
	}
	got, problem := d.Message()
	if diff := cmp.Diff(resp.Message, got); diff != "" || problem != nil {
		t.Errorf("the deltas: %v (- answer, + deltas)\n%s", problem, diff)
	}
	return resp, nil
}

// A model that is thinking is not silent, nor is a server that says that it works: a ping, and the usage.
func TestAThoughtIsAnEmptyDelta(t *testing.T) {
	var got []llm.Delta
	stream := ended("end_turn", start(0, `{"type":"thinking","thinking":""}`), delta(0, `{"type":"thinking_delta","thinking":"hm"}`), stop(0),
		event("ping", ""), start(1, `{"type":"text","text":""}`), delta(1, `{"type":"text_delta","text":"yes"}`), stop(1))
	m := model(t, "http://host.invalid", llmtest.Answering("text/event-stream", strings.NewReader(stream)))
	_, err := m.Generate(t.Context(), user("go"), func(d llm.Delta) { got = append(got, d) })
	if diff := cmp.Diff([]llm.Delta{{}, {}, {Text: "yes"}, {}}, got); err != nil || diff != "" {
		t.Errorf("%v (- want, + got)\n%s", err, diff)
	}
}

func start(index int, block string) string {
	return event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, block))
}

func delta(index int, d string) string {
	return event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, d))
}

func stop(index int) string { return event("content_block_stop", fmt.Sprintf(`,"index":%d`, index)) }

func input(index int, partial string) string {
	return delta(index, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, quote(partial)))
}

// ended returns the events of blocks, with the first and last events of a stream.
func ended(reason string, blocks ...string) string {
	return event("message_start", `,"message":{"type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":1}}`) +
		strings.Join(blocks, "") +
		event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":2}`, reason)) + event("message_stop", "")
}

func TestBlocks(t *testing.T) {
	one, two := `{"type":"tool_use","id":"A","name":"one","input":{}}`, `{"type":"tool_use","id":"B","name":"two","input":{"y": 2}}`
	called := func(calls ...llm.ToolCall) llm.Message { return llm.Message{Calls: calls} }
	for name, test := range map[string]struct {
		stream string
		want   llm.Message
	}{
		"calls, one after another": {
			ended("tool_use", start(0, one), input(0, ""), input(0, `{"x":`), input(0, `1}`), stop(0), start(1, two), input(1, `{"y":3}`), stop(1)),
			called(llm.ToolCall{ID: "A", Name: "one", Arguments: `{"x":1}`}, llm.ToolCall{ID: "B", Name: "two", Arguments: `{"y":3}`})},
		"calls, at the same time": {
			ended("tool_use", start(0, one), start(1, two), input(1, `{"y"`), input(0, `{"x"`), input(1, `:3}`), input(0, `:1}`), stop(1), stop(0)),
			called(llm.ToolCall{ID: "A", Name: "one", Arguments: `{"x":1}`}, llm.ToolCall{ID: "B", Name: "two", Arguments: `{"y":3}`})},
		"the input at the beginning": {
			ended("tool_use", start(0, one), stop(0), start(1, two), input(1, ""), stop(1)),
			called(llm.ToolCall{ID: "A", Name: "one", Arguments: `{}`}, llm.ToolCall{ID: "B", Name: "two", Arguments: `{"y": 2}`})},
		"blocks that do not end": {
			ended("tool_use", start(0, one), start(1, two)),
			called(llm.ToolCall{ID: "A", Name: "one", Arguments: `{}`}, llm.ToolCall{ID: "B", Name: "two", Arguments: `{"y": 2}`})},
		"a block that ends when its index begins again": {
			ended("tool_use", start(0, one), start(0, two), input(0, `{}`), stop(0)),
			called(llm.ToolCall{ID: "A", Name: "one", Arguments: `{}`}, llm.ToolCall{ID: "B", Name: "two", Arguments: `{}`})},
		"no input at all": {
			ended("tool_use", start(0, `{"type":"tool_use","id":"A","name":"one"}`), stop(0), start(1, `{"type":"tool_use","id":"B","name":"two","input":null}`), stop(1)),
			called(llm.ToolCall{ID: "A", Name: "one"}, llm.ToolCall{ID: "B", Name: "two"})},
		"text around a call": {
			ended("tool_use", start(0, `{"type":"text","text":"a"}`), delta(0, `{"type":"text_delta","text":"b"}`), stop(0), start(1, one), stop(1),
				start(2, `{"type":"text","text":""}`), delta(2, `{"type":"text_delta","text":"c"}`), stop(2)),
			llm.Message{Text: "abc", Calls: []llm.ToolCall{{ID: "A", Name: "one", Arguments: `{}`}}}},
		"thinking, and what is new": {
			ended("end_turn", start(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, `{"type":"thinking_delta","thinking":"hm"}`),
				delta(0, `{"type":"signature_delta","signature":"EqQB"}`), stop(0), start(1, `{"type":"redacted_thinking","data":"x"}`), stop(1),
				start(2, `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`), input(2, `{"q":1}`), stop(2),
				start(3, `{"type":"something_new","text":"no"}`), delta(3, `{"type":"something_delta","text":"no"}`), stop(3), event("something_new", `,"x":[1]`),
				start(4, `{"type":"text","text":"","citations":null}`), delta(4, `{"type":"citations_delta","citation":{}}`), delta(4, `{"type":"text_delta","text":"yes"}`), stop(4)),
			llm.Message{Text: "yes"}},
		"no lines of the event's name": {
			strings.ReplaceAll(ended("end_turn", start(0, `{"type":"text","text":""}`), delta(0, `{"type":"text_delta","text":"a"}`), stop(0)), "event: ", "x: "),
			llm.Message{Text: "a"}},
		"pings and comments": {
			": hello\n\n" + event("ping", "") + ended("end_turn", event("ping", ""), ": ping\n\n", start(0, `{"type":"text","text":"a"}`), event("ping", ""), stop(0), stop(7)),
			llm.Message{Text: "a"}},
		"nothing": {ended("end_turn"), llm.Message{}},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := streamed(t, strings.NewReader(test.stream))
			test.want.Role = llm.RoleAssistant
			if diff := cmp.Diff(test.want, resp.Message); diff != "" || err != nil || resp.Usage != (llm.Usage{PromptTokens: 7, CompletionTokens: 2}) || resp.Model != "m" {
				t.Errorf("%v, %+v (- want, + got)\n%s", err, resp, diff)
			}
		})
	}
}

// The inputs of calls are assembled correctly, however many pieces they have and in whatever order.
func TestInputsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var want []llm.ToolCall
		var blocks []string
		var queues [][]string
		for i := range rapid.IntRange(0, 4).Draw(rt, "calls") {
			c := llm.ToolCall{ID: fmt.Sprintf("toolu_%d", i), Name: rapid.StringMatching(`[a-z]{1,5}`).Draw(rt, "name")}
			var queue []string
			for _, p := range rapid.SliceOfN(rapid.StringMatching(`[{}"\\:,a-zä☕🦜 ]{1,6}`), 1, 5).Draw(rt, "input") {
				c.Arguments += llm.Arguments(p)
				queue = append(queue, input(i, p))
			}
			want, queues = append(want, c), append(queues, append(queue, stop(i)))
			blocks = append(blocks, start(i, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(c.ID), quote(c.Name))))
		}
		for left := len(queues); left > 0; {
			i := rapid.IntRange(0, len(queues)-1).Draw(rt, "next")
			if len(queues[i]) == 0 {
				continue
			}
			blocks, queues[i] = append(blocks, queues[i][0]), queues[i][1:]
			if len(queues[i]) == 0 {
				left--
			}
		}
		resp, err := streamed(t, strings.NewReader(ended("tool_use", blocks...)))
		if diff := cmp.Diff(want, resp.Calls); diff != "" || err != nil {
			rt.Fatalf("%v (- want, + got)\n%s", err, diff)
		}
	})
}

// full returns an answer that uses everything that an answer may contain.
func full() llm.Response {
	return llm.Response{
		Message: llm.Message{Role: llm.RoleAssistant, Text: "Ü☕", Calls: []llm.ToolCall{
			{ID: "toolu_A", Name: "look", Arguments: `{"a":"🦜"}`}, {ID: "toolu_B", Name: "fly", Arguments: `{"b`},
		}},
		StopReason: llm.StopToolUse,
		Usage:      llm.Usage{PromptTokens: 1, CompletionTokens: 20, CacheReadTokens: 300, CacheWriteTokens: 4000},
		Model:      "claude",
	}
}

// The result does not depend on where the network splits a stream.
func TestPiecesOfTheNetwork(t *testing.T) {
	stream := strings.Join(events(full()), "")
	for at := 0; at < len(stream); at += llmtest.Stride() {
		got, err := streamed(t, io.MultiReader(strings.NewReader(stream[:at]), strings.NewReader(stream[at:])))
		if diff := cmp.Diff(full(), got); diff != "" || err != nil {
			t.Fatalf("at byte %d: %v (- want, + got)\n%s", at, err, diff)
		}
	}
	m, _ := asking(t, llmtest.Events(strings.Split(stream, "")...)) // byte by byte, or as the network combines them
	var d llmtest.Deltas
	if got, err := m.Generate(t.Context(), user("go"), d.Add); !cmp.Equal(full(), got) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A stream that ends before message_stop is an error, even if all other events have arrived.
func TestCutAtEveryByte(t *testing.T) {
	all := strings.Join(events(full()), "")
	stopped := len(strings.TrimSpace(all)) // here the last event is complete except for the end of its line
	for at := 0; at < len(all); at += llmtest.Stride() {
		for _, broken := range []bool{false, true} {
			in := io.Reader(strings.NewReader(all[:at]))
			if broken {
				in = io.MultiReader(in, iotest.ErrReader(io.ErrUnexpectedEOF))
			}
			got, err := streamed(t, in)
			switch {
			case err == nil && (at < stopped || broken || !cmp.Equal(full(), got)):
				t.Errorf("cut at byte %d of %d: got %+v", at, len(all), got)
			case err != nil && llm.ClassOf(err) != llm.ClassUnavailable:
				t.Errorf("cut at byte %d of %d: %v", at, len(all), err)
			}
		}
	}
}

// The same over a real connection.
func TestConnectionCutAtEveryByte(t *testing.T) {
	all := strings.Join(events(full()), "")
	step := llmtest.Stride()
	for _, end := range []llmtest.End{llmtest.EndWell, llmtest.EndAbort} {
		var turns []http.HandlerFunc
		for at := 0; at < len(all); at += step {
			turns = append(turns, llmtest.Speak(200, end, []string{all[:at]}, "Content-Type", "text/event-stream"))
		}
		m, _ := asking(t, turns...)
		for i := range turns {
			got, err := m.Generate(t.Context(), user("go"), func(llm.Delta) {})
			if err == nil && !cmp.Equal(full(), got) || err != nil && llm.ClassOf(err) != llm.ClassUnavailable {
				t.Errorf("%s at byte %d of %d: got %+v, %v", end, i*step, len(all), got, err)
			}
		}
	}
}

// Half of an answer that is not streamed is not an answer.
func TestWholeCutAtEveryByte(t *testing.T) {
	whole := full()
	whole.Calls[1].Arguments = `{"b":1}`
	all := wholeAnswer(whole)
	for at := 0; at < len(all); at += llmtest.Stride() {
		m := model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(all[:at])))
		if got, err := m.Generate(t.Context(), user("go"), nil); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("cut at byte %d of %d: got %+v, %v", at, len(all), got, err)
		}
	}
}

func TestHugeEvent(t *testing.T) {
	text := func(s string) string { return delta(0, `{"type":"text_delta","text":"`+s+`"}`) }
	huge := strings.Repeat("x", wire.MaxEvent)
	for name, stream := range map[string]string{
		"an event":    ended("end_turn", text(huge)),
		"many events": ended("end_turn", strings.Repeat(text(huge[:1<<20]), 9)),
	} {
		if _, err := streamed(t, strings.NewReader(stream)); llm.ClassOf(err) != llm.ClassBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := huge[:wire.MaxEvent-1000]
	if got, err := streamed(t, strings.NewReader(ended("end_turn", text(large)))); err != nil || got.Text != large {
		t.Errorf("a large one: %d bytes, %v", len(got.Text), err)
	}
}

// FuzzStream: no stream causes a panic, an error without a class, or deltas that differ from the
// answer.
func FuzzStream(f *testing.F) {
	f.Add([]byte(strings.Join(events(full()), "")))
	f.Add([]byte(wholeAnswer(llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{ID: "A", Name: "one", Arguments: "{}"}}}, StopReason: llm.StopToolUse})))
	f.Add([]byte(ended("tool_use", start(-1, `{"type":"tool_use","id":"A","name":"one"}`), input(-1, "{"), start(1, `{"type":"tool_use","id":"A","name":"one","input":[1]}`))))
	f.Add([]byte(event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`)))
	f.Add([]byte(ended("", start(0, `{"type":"tool_use"}`)) + "data: {\"type\":\"message_stop\"}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		resp, err := streamed(t, strings.NewReader(string(stream)))
		check(t, resp, err)
		m := model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(string(stream))))
		resp, err = m.Generate(t.Context(), user("go"), nil)
		check(t, resp, err)
	})
}

// check verifies what must be true for every answer.
func check(t *testing.T, resp llm.Response, err error) {
	t.Helper()
	if err != nil {
		if llm.ClassOf(err) == "" {
			t.Errorf("%v has no class", err)
		}
		return
	}
	seen := map[string]bool{}
	for _, c := range resp.Calls {
		if c.ID == "" || c.Name == "" || seen[c.ID] {
			t.Errorf("calls %+v", resp.Calls)
		}
		seen[c.ID] = true
	}
	u := resp.Usage
	if resp.Role != llm.RoleAssistant || resp.StopReason == "" || resp.Model == "" || (resp.StopReason == llm.StopToolUse && len(resp.Calls) == 0) ||
		min(u.PromptTokens, u.CompletionTokens, u.CacheReadTokens, u.CacheWriteTokens) < 0 {
		t.Errorf("answer %+v", resp)
	}
}
