package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// check verifies what must be true for every answer to every request.
func check(t interface{ Fatalf(string, ...any) }, req llm.Request) {
	resp, err := New().Generate(context.Background(), req, nil)
	again, errAgain := New().Generate(context.Background(), req, func(llm.Delta) {})
	if !reflect.DeepEqual(resp, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		t.Fatalf("not the same twice:\n%+v, %v\n%+v, %v", resp, err, again, errAgain)
	}
	if err != nil {
		if llm.ClassOf(err) != llm.ClassBadRequest {
			t.Fatalf("failed by %v", err)
		}
		return
	}
	if req.MaxTokens <= 0 && !strings.HasPrefix(strings.TrimPrefix(resp.Text, "FAILED: "), mark) {
		t.Fatalf("the text does not say who speaks: %q", resp.Text)
	}
	if req.MaxTokens > 0 && resp.Usage.CompletionTokens > req.MaxTokens {
		t.Fatalf("%d tokens, allowed are %d", resp.Usage.CompletionTokens, req.MaxTokens)
	}
	if (len(resp.Calls) > 0) != (resp.StopReason == llm.StopToolUse) {
		t.Fatalf("stopped by %q with %d calls", resp.StopReason, len(resp.Calls))
	}
	for _, c := range resp.Calls {
		offered := false
		for _, tool := range req.Tools {
			offered = offered || tool.Name == c.Name
		}
		if _, ok := c.Arguments.Object(); !ok || !offered {
			t.Fatalf("calls %+v, offered: %v", c, offered)
		}
	}
}

// texts generates the words that requests are made of: those that the script searches for, and
// others.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}"\[\]:,\\ a-z0-9]{0,40}`), rapid.SampledFrom([]string{
		"task: plan", "x\ntask: advance", "remember that tea is hot", "remember ?", "{}", `{"objective":{"id":"o"}}`,
		`{"objective":{"id":"o","title":"T"},"skills":["save_memory"],"step":{"number":1,"skill":"save_memory","inputs":{"a":[1e999]}}}`,
		`{"objective":{"id":"o"},"step":{"skill":"complete_objective"}}`, `{"objective":{"id":"o"},"step":{"inputs":null,"skill":"t"}}`,
		"no tool named x", `missing 'a'; additional 'content' {"properties":{"a":{"type":"integer"}}}`, "{{{{{{{{",
		`{"status":"pending_approval"}`, `{"content":"x"}`, `{"content":`, "a", "b", "1",
		"save_memory", "plan_objective", "advance_plan", "complete_objective", "query_activity",
	}))
}

// schemas generates JSON Schemas and values that only look like schemas.
func schemas() *rapid.Generator[json.RawMessage] {
	values := []any{nil, true, false, 0, -1, 1e18, 2.5, "string", "integer", "nonsense", "content", []any{}, []any{"a", 1, nil},
		[]any{"string", "null"}, map[string]any{}, map[string]any{"type": "array", "items": map[string]any{}, "minItems": 1e9},
		map[string]any{"a": map[string]any{"type": "integer", "minimum": 5, "maximum": 1}, "b": nil, "content": true}}
	keywords := []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "default",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"}
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			return json.RawMessage(texts().Draw(t, "schema"))
		}
		m := rapid.MapOf(rapid.SampledFrom(keywords), rapid.SampledFrom(values)).Draw(t, "schema")
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	})
}

func requests() *rapid.Generator[llm.Request] {
	return rapid.Custom(func(t *rapid.T) llm.Request {
		text := func(label string) string { return texts().Draw(t, label) }
		req := llm.Request{System: text("system"), MaxTokens: rapid.IntRange(-1, 60).Draw(t, "max") / 10 * 10}
		for range rapid.IntRange(0, 4).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: text("tool"), Parameters: schemas().Draw(t, "parameters")})
		}
		if rapid.Bool().Draw(t, "brief") {
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Text: text("brief")})
		}
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			m := llm.Message{Role: rapid.SampledFrom([]llm.Role{"user", "assistant", "tool", "system", "x"}).Draw(t, "role"), Text: text("text")}
			if m.Role == llm.RoleAssistant {
				for range rapid.IntRange(0, 2).Draw(t, "calls") {
					m.Calls = append(m.Calls, llm.ToolCall{ID: text("id"), Name: text("name"), Arguments: llm.Arguments(text("arguments"))})
				}
			}
			req.Messages = append(req.Messages, m)
			if len(m.Calls) == 0 || rapid.IntRange(0, 9).Draw(t, "unanswered") == 0 {
				continue
			}
			results := llm.Message{Role: llm.RoleTool}
			for _, c := range m.Calls {
				results.Results = append(results.Results, llm.ToolResult{CallID: c.ID, Name: c.Name, Content: text("result"), IsError: rapid.Bool().Draw(t, "error")})
			}
			req.Messages = append(req.Messages, results)
		}
		return req
	})
}

func TestAnyRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { check(t, requests().Draw(t, "request")) })
}

// TestAnyConversation plays steps and plans against arbitrary schemas and results, with the model's
// own calls. The conversation must end.
func TestAnyConversation(t *testing.T) {
	names := []string{"save_memory", "plan_objective", "advance_plan", "complete_objective", "save_memori"}
	inputs := []string{`{}`, `null`, `{"a":1}`, `{"a":"7","content":[true,null]}`, `{"content":{"a":2.5},"a":null}`}
	rapid.Check(t, func(t *rapid.T) {
		skill := rapid.SampledFrom(names).Draw(t, "skill")
		input := rapid.SampledFrom(inputs).Draw(t, "inputs")
		req := llm.Request{
			System: rapid.SampledFrom([]string{"task: plan", "task: advance"}).Draw(t, "system"),
			Messages: []llm.Message{{Role: llm.RoleUser, Text: fmt.Sprintf(
				`{"objective":{"id":"o","title":"T"},"step":{"number":3,"skill":%q,"inputs":%s}}`, skill, input)}},
		}
		for _, name := range names {
			req.Tools = append(req.Tools, llm.Tool{Name: name, Parameters: schemas().Draw(t, name)})
		}
		for range 12 {
			check(t, req)
			resp, err := New().Generate(context.Background(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Calls) == 0 {
				return
			}
			c := resp.Calls[0]
			result := llm.ToolResult{CallID: c.ID, Name: c.Name, Content: "{}"}
			if result.IsError = rapid.Bool().Draw(t, "error"); result.IsError {
				result.Content = texts().Draw(t, "message") + string(schemas().Draw(t, "quoted"))
			}
			req.Messages = append(req.Messages, resp.Message, llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{result}})
		}
		t.Fatalf("no end: %+v", req.Messages)
	})
}

// FuzzConversation plays a conversation with an arbitrary brief, tool and tool results. It must
// end.
func FuzzConversation(f *testing.F) {
	f.Add("task: plan", planRequest(usualSkills).Messages[0].Text, "plan_objective", string(tools[0].Parameters), "missing 'x'", true)
	f.Add("task: advance", advanceRequest(noteStep).Messages[0].Text, "save_memory", string(tools[3].Parameters), "no tool named x", true)
	f.Add("task: advance", `{"objective":{"id":"o"},"step":{"skill":"complete_objective"}}`, "complete_objective", `{}`, "{}", false)
	f.Add("", "remember tea", "save_memory", `{"type":"object","required":["a"]}`, `additional 'a' {"properties":{"b":{}}}`, true)
	f.Fuzz(func(t *testing.T, system, brief, name, parameters, result string, isError bool) {
		req := llm.Request{
			System:   system,
			Messages: []llm.Message{{Role: llm.RoleUser, Text: brief}},
			Tools:    append([]llm.Tool{tool(name, parameters)}, tools...),
		}
		for range 12 {
			check(t, req)
			resp, err := New().Generate(context.Background(), req, nil)
			if err != nil || len(resp.Calls) == 0 {
				return
			}
			if !utf8.ValidString(resp.Text) && utf8.ValidString(brief+name+result) {
				t.Fatalf("the text is broken: %q", resp.Text)
			}
			c := resp.Calls[0]
			req.Messages = append(req.Messages, resp.Message,
				llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: c.ID, Name: c.Name, Content: result, IsError: isError}}})
		}
		t.Fatalf("no end: %+v", req.Messages)
	})
}
