package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
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
	got.Opaque = resp.Opaque // it is not streamed
	if diff := cmp.Diff(resp.Message, got); diff != "" || problem != nil {
		t.Errorf("the deltas: %v (- answer, + deltas)\n%s", problem, diff)
	}
	return resp, nil
}

// chunks returns a stream of deltas with a finish reason and the end mark.
func chunks(deltas ...string) string {
	var out strings.Builder
	for _, d := range deltas {
		_, _ = fmt.Fprintf(&out, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", d)
	}
	out.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return out.String()
}

// calls returns deltas of calls. Each piece is one list.
func calls(pieces ...string) string {
	var deltas []string
	for _, p := range pieces {
		deltas = append(deltas, `{"tool_calls":[`+p+`]}`)
	}
	return chunks(deltas...)
}

// How compatible servers stream calls. A call is given as id, name and arguments; "?" is any id.
func TestDialectsOfCalls(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"OpenAI": {calls(
			`{"index":0,"id":"A","type":"function","function":{"name":"one","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":1,"id":"B","type":"function","function":{"name":"two","arguments":""}}`, `{"index":1,"function":{"arguments":"{}"}}`),
			[]string{`A one {"x":1}`, `B two {}`}},
		"whole calls in one event": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{\"x\":1}"}},{"index":1,"id":"B","function":{"name":"two","arguments":"{}"}}`),
			[]string{`A one {"x":1}`, `B two {}`}},
		"the index of all is 0 (Ollama)": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"B","function":{"name":"one","arguments":"{\"x\":2}"}}`),
			[]string{`A one {"x":1}`, `B one {"x":2}`}},
		"the index of all is 0, in pieces": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":0,"id":"B","function":{"name":"one","arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":2}"}}`),
			[]string{`A one {"x":1}`, `B one {"x":2}`}},
		"the index of all is 0, in one event": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}},{"index":0,"id":"B","function":{"name":"one","arguments":"{}"}}`),
			[]string{`A one {}`, `B one {}`}},
		"no index": {calls(
			`{"id":"A","function":{"name":"one","arguments":"{\"x\""}}`, `{"function":{"arguments":":1}"}}`,
			`{"id":"B","function":{"name":"two","arguments":""}}`, `{"function":{"arguments":"{}"}}`),
			[]string{`A one {"x":1}`, `B two {}`}},
		"no index, by id": {calls(
			`{"id":"A","function":{"name":"one","arguments":"{\"x\""}}`, `{"id":"B","function":{"name":"two","arguments":"{\"y\""}}`,
			`{"id":"A","function":{"arguments":":1}"}}`, `{"id":"B","function":{"arguments":":2}"}}`),
			[]string{`A one {"x":1}`, `B two {"y":2}`}},
		"no index, by place": {calls(
			`{"id":"A","function":{"name":"one","arguments":""}},{"id":"B","function":{"name":"two","arguments":""}}`,
			`{"function":{"arguments":"{\"x\""}},{"function":{"arguments":"{\"y\""}}`, `{"function":{"arguments":":1}"}},{"function":{"arguments":":2}"}}`),
			[]string{`A one {"x":1}`, `B two {"y":2}`}},
		"an index that is null (Gemini)": {calls(
			`{"index":null,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":null,"id":"B","function":{"name":"one","arguments":"{}"}}`),
			[]string{`A one {}`, `B one {}`}},
		"neither index nor id": {calls(
			`{"function":{"name":"one","arguments":"{\"x\":1}"}}`, `{"function":{"name":"one","arguments":"{\"x\":2}"}}`, `{"function":{"name":"two","arguments":"{}"}}`),
			[]string{`? one {"x":1}`, `? one {"x":2}`, `? two {}`}},
		"neither index nor id, in one event": {calls(
			`{"function":{"name":"one","arguments":"{}"}},{"function":{"name":"one","arguments":"{}"}}`),
			[]string{`? one {}`, `? one {}`}},
		"name and id come again and again": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":""}}`, `{"index":0,"id":"A","function":{"name":"one","arguments":"{\"x\":"}}`,
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":0,"id":"A","function":{"name":"one","arguments":"}"}}`),
			[]string{`A one {"x":{}}`}},
		"the id becomes empty": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":""}}`, `{"index":0,"id":"","function":{"name":"","arguments":"{}"}}`),
			[]string{`A one {}`}},
		"the id comes late": {calls(
			`{"index":0,"id":"","function":{"name":"one","arguments":"{\"x\""}}`, `{"index":0,"id":"A","function":{"arguments":":1}"}}`,
			`{"index":1,"function":{"name":"two","arguments":"{}"}}`, `{"index":1,"id":"B","function":{"arguments":""}}`),
			[]string{`? one {"x":1}`, `? two {}`}},
		"the name comes late": {calls(
			`{"index":0,"id":"A","function":{"arguments":"{\"x\""}}`, `{"index":1,"id":"B"}`, `{"index":1,"function":{"name":"two"}}`,
			`{"index":0,"function":{"name":"one","arguments":":1}"}}`, `{"index":1,"function":{"arguments":"{}"}}`),
			[]string{`B two {}`, `A one {"x":1}`}},
		"one id for two": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":1,"id":"A","function":{"name":"two","arguments":"{}"}}`),
			[]string{`A one {}`, `? two {}`}},
		"one id and one index for two": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":0,"id":"A","function":{"name":"two","arguments":"{}"}}`,
			`{"index":0,"id":"A","function":{"name":"two","arguments":"{}"}}`),
			[]string{`A one {}`, `? two {}`, `? two {}`}},
		"an index that begins elsewhere": {calls(
			`{"index":3,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":1,"id":"B","function":{"name":"two","arguments":"{}"}}`),
			[]string{`A one {}`, `B two {}`}},
		"arguments that are an object": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":{"x": 1}}}`, `{"index":1,"id":"B","function":{"name":"two","arguments":null}}`),
			[]string{`A one {"x": 1}`, `B two `}},
		"no arguments": {calls(`{"index":0,"id":"A","function":{"name":"one"}}`), []string{`A one `}},
		"a call that is nothing": {calls(
			`{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}}`, `{"index":1,"function":{}}`, `{"index":2}`),
			[]string{`A one {}`}},
		"an answer in one event": {
			`data: {"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"A","function":{"name":"one","arguments":"{"}},` +
				`{"id":"A","function":{"name":"one","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n",
			[]string{`A one {`, `? one {}`}},
		"beside all so far (Perplexity)": {
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"A","function":{"name":"one","arguments":"{}"}}]},` +
				`"message":{"content":"so far","tool_calls":[{"id":"A","function":{"name":"one","arguments":"{}"}}]},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
			[]string{`A one {}`}},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := streamed(t, strings.NewReader(test.stream))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			seen := map[string]bool{}
			for i, c := range resp.Calls {
				if c.ID == "" || seen[c.ID] {
					t.Errorf("the id %q is not unique", c.ID)
				}
				seen[c.ID] = true
				id := c.ID
				if i < len(test.want) && strings.HasPrefix(test.want[i], "?") && strings.HasPrefix(id, "call_") {
					id = "?"
				}
				got = append(got, fmt.Sprintf("%s %s %s", id, c.Name, c.Arguments))
			}
			if !slices.Equal(got, test.want) || resp.StopReason != llm.StopToolUse || resp.Text != "" {
				t.Errorf("got %q, text %q, %s, want %q", got, resp.Text, resp.StopReason, test.want)
			}
		})
	}
}

func TestCallsWithoutANameAreMalformed(t *testing.T) {
	for _, stream := range []string{
		calls(`{"index":0,"id":"A","function":{"arguments":"{}"}}`), calls(`{"index":0,"id":"A"}`), calls(`{"function":{"arguments":"{}"}}`),
	} {
		if resp, err := streamed(t, strings.NewReader(stream)); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("%s\ngot %+v, %v", stream, resp, err)
		}
	}
}

// Calls are assembled correctly, whatever they contain, in any number of pieces and in any dialect.
func TestCallsProperty(t *testing.T) {
	piece := func(index, id, name, arguments string) string {
		return fmt.Sprintf(`{%s"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, index, quote(id), quote(name), quote(arguments))
	}
	rapid.Check(t, func(rt *rapid.T) {
		var want []llm.ToolCall
		var queues [][]string
		dialect := rapid.SampledFrom([]string{"OpenAI", "again", "no index", "index 0"}).Draw(rt, "dialect")
		for i := range rapid.IntRange(0, 4).Draw(rt, "calls") {
			c := llm.ToolCall{ID: fmt.Sprintf("id-%d", i), Name: rapid.StringMatching(`[a-z]{1,5}`).Draw(rt, "name")}
			index := fmt.Sprintf(`"index":%d,`, i)
			switch dialect {
			case "no index":
				index = ""
			case "index 0":
				index = `"index":0,`
			}
			parts := append([]string{""}, rapid.SliceOfN(rapid.StringMatching(`[{}"\\:,a-zä☕🦜 ]{0,6}`), 0, 5).Draw(rt, "arguments")...)
			var queue []string
			for n, p := range parts {
				id, name := c.ID, c.Name
				if n > 0 && dialect != "again" {
					id, name = "", ""
				}
				if dialect == "again" && n > 0 && strings.HasPrefix(strings.TrimSpace(p), "{") {
					id, name = "", "" // a piece with id and name begins another call if the arguments before were complete
				}
				c.Arguments += llm.Arguments(p)
				queue = append(queue, `{"tool_calls":[`+piece(index, id, name, p)+`]}`)
			}
			want, queues = append(want, c), append(queues, queue)
		}
		var deltas []string
		for i := range queues { // each call begins in order
			deltas, queues[i] = append(deltas, queues[i][0]), queues[i][1:]
			if dialect == "no index" || dialect == "index 0" { // and ends before the next one
				deltas, queues[i] = append(deltas, queues[i]...), nil
			}
		}
		for {
			queues = slices.DeleteFunc(queues, func(q []string) bool { return len(q) == 0 })
			if len(queues) == 0 {
				break
			}
			i := rapid.IntRange(0, len(queues)-1).Draw(rt, "next")
			deltas, queues[i] = append(deltas, queues[i][0]), queues[i][1:]
		}
		resp, err := streamed(t, strings.NewReader(chunks(deltas...)))
		if diff := cmp.Diff(want, resp.Calls); diff != "" || err != nil {
			rt.Fatalf("%s: %v (- want, + got)\n%s", dialect, err, diff)
		}
	})
}

// full returns an answer that uses everything that an answer may contain.
func full() llm.Response {
	return llm.Response{
		Message: llm.Message{Role: llm.RoleAssistant, Text: "Ü☕", Calls: []llm.ToolCall{
			{ID: "call_A", Name: "look", Arguments: `{"a":"🦜"}`}, {ID: "call_B", Name: "fly", Arguments: `{"b`},
		}},
		StopReason: llm.StopToolUse,
		Usage:      llm.Usage{PromptTokens: 1, CompletionTokens: 20, CacheReadTokens: 300, CacheWriteTokens: 4000},
		Model:      "gpt",
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

// TestAFinishReasonEndsAnAnswer: some servers send nothing behind it, neither the usage nor the end mark.
func TestAFinishReasonEndsAnAnswer(t *testing.T) {
	stream, _, _ := strings.Cut(chunks(`{"content":"Hello."}`), "data: [DONE]")
	if got, err := streamed(t, strings.NewReader(stream)); err != nil || got.Text != "Hello." || got.StopReason != llm.StopEndTurn {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A stream that ends early is an error, unless only the usage and the end mark are missing.
func TestCutAtEveryByte(t *testing.T) {
	all := strings.Join(events(full()), "")
	finished := strings.Index(all, `"finish_reason":"tool_calls"`) // here the answer is complete
	for at := 0; at < len(all); at += llmtest.Stride() {
		for _, broken := range []bool{false, true} {
			in := io.Reader(strings.NewReader(all[:at]))
			if broken {
				in = io.MultiReader(in, iotest.ErrReader(io.ErrUnexpectedEOF))
			}
			got, err := streamed(t, in)
			switch {
			case err == nil && (at < finished || !cmp.Equal(full().Message, got.Message)):
				t.Errorf("cut at byte %d of %d: got %+v", at, len(all), got)
			case err != nil && llm.ClassOf(err) != llm.ClassUnavailable:
				t.Errorf("cut at byte %d of %d: %v", at, len(all), err)
			case err == nil && broken && at < len(all)-2: // the end mark itself is incomplete
				t.Errorf("broken at byte %d of %d, and no error", at, len(all))
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
			if err == nil && !cmp.Equal(full().Message, got.Message) || err != nil && llm.ClassOf(err) != llm.ClassUnavailable {
				t.Errorf("%s at byte %d of %d: got %+v, %v", end, i*step, len(all), got, err)
			}
		}
	}
}

// Half of an answer that is not streamed is not an answer.
func TestWholeCutAtEveryByte(t *testing.T) {
	all := wholeAnswer(full())
	for at := 0; at < len(all); at += llmtest.Stride() {
		m := model(t, "http://host.invalid", llmtest.Answering("application/json", strings.NewReader(all[:at])))
		if got, err := m.Generate(t.Context(), user("go"), nil); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("cut at byte %d of %d: got %+v, %v", at, len(all), got, err)
		}
	}
}

func TestHugeEvent(t *testing.T) {
	huge := strings.Repeat("x", wire.MaxEvent)
	for name, stream := range map[string]string{
		"an event":    chunks(`{"content":"` + huge + `"}`),
		"many events": strings.Repeat(strings.TrimSuffix(chunks(`{"content":"`+huge[:1<<20]+`"}`), "data: [DONE]\n\n"), 10),
	} {
		if _, err := streamed(t, strings.NewReader(stream)); llm.ClassOf(err) != llm.ClassBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := huge[:wire.MaxEvent-1000]
	if got, err := streamed(t, strings.NewReader(chunks(`{"content":"`+large+`"}`))); err != nil || got.Text != large {
		t.Errorf("a large one: %d bytes, %v", len(got.Text), err)
	}
}

// FuzzStream: no stream causes a panic, an error without a class, or deltas that differ from the
// answer.
func FuzzStream(f *testing.F) {
	f.Add([]byte(strings.Join(events(full()), "")))
	f.Add([]byte(calls(`{"id":"A","function":{"name":"one","arguments":{}}}`, `{"index":null,"function":{"arguments":"{"}}`)))
	f.Add([]byte(chunks(`{"content":[{"type":"text","text":"a"}],"refusal":"no"}`)))
	f.Add([]byte("data: {\"error\":{\"code\":429}}\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"usage\":{\"prompt_tokens\":1e99,\"prompt_tokens_details\":null}}]}\n\n"))
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
