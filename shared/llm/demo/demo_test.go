package demo

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// The tools that a heartbeat offers.
var tools = []llm.Tool{
	tool("plan_objective", `{"type":"object","additionalProperties":false,"required":["objectiveId","steps"],"properties":{
		"objectiveId":{"type":"string"},
		"steps":{"type":"array","minItems":1,"maxItems":20,"items":{"type":"object","required":["title","skill"],"properties":{
			"title":{"type":"string","minLength":1,"maxLength":200},"skill":{"type":"string"},
			"inputs":{"type":"object"},"doneCriterion":{"type":"string"}}}}}}`),
	tool("advance_plan", `{"type":"object","additionalProperties":false,"required":["objectiveId","step","result"],"properties":{
		"objectiveId":{"type":"string"},"step":{"type":"integer","minimum":1},"result":{"type":"string"}}}`),
	tool("complete_objective", `{"type":"object","additionalProperties":false,"required":["objectiveId","summary"],"properties":{
		"objectiveId":{"type":"string"},"summary":{"type":"string"}}}`),
	tool("save_memory", `{"type":"object","additionalProperties":false,"required":["category","content"],"properties":{
		"category":{"type":"string","enum":["fact","preference","note"]},"content":{"type":"string","minLength":1,"maxLength":4000},
		"importance":{"type":"integer","minimum":1,"maximum":10},"expires_at":{"type":"string"}}}`),
	tool("query_activity", `{"type":"object","additionalProperties":false,"properties":{
		"limit":{"type":"integer","minimum":1,"maximum":50},"skill":{"type":"string"}}}`),
	tool("fetch_weather", `{"type":"object","required":["city","days"],"properties":{
		"city":{"type":"string"},"days":{"type":"integer","minimum":2}}}`),
}

func tool(name, parameters string) llm.Tool {
	return llm.Tool{Name: name, Parameters: json.RawMessage(parameters)}
}

const theObjective = `{"id":"o1","title":"Weekly report","description":"Say what the agents did.","doneCriterion":"A report exists.","priority":5`

func planRequest(skills string) llm.Request {
	return llm.Request{
		System:   "You plan.\n\ntask: plan\n",
		Messages: []llm.Message{{Role: llm.RoleUser, Text: `{"objective":` + theObjective + `},"skills":` + skills + `}`}},
		Tools:    tools,
	}
}

func advanceRequest(step string) llm.Request {
	plan := `,"plan":[{"number":1,"title":"Look","skill":"query_activity","inputs":{},"doneCriterion":"","status":"done"}]}`
	return llm.Request{
		System:   "You work.\ntask: advance",
		Messages: []llm.Message{{Role: llm.RoleUser, Text: `{"objective":` + theObjective + plan + `,"step":` + step + `}`}},
		Tools:    tools,
	}
}

func chatRequest(text string) llm.Request {
	return llm.Request{System: "You chat.", Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}, Tools: tools}
}

func generate(t *testing.T, req llm.Request) llm.Response {
	t.Helper()
	resp, err := New().Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(strings.TrimPrefix(resp.Text, "FAILED: "), "[demo model] ") {
		t.Errorf("the text does not say who speaks: %q", resp.Text)
	}
	return resp
}

// answer is the result of a tool.
type answer struct {
	content string
	isError bool
}

var ok = answer{content: `{"ok":true}`}

func failure(content string) answer { return answer{content, true} }

// converse plays the reasoning loop. It answers calls with the given answers in order, and with ok
// when none are left. It returns the calls and the last text. It checks that every call satisfies
// the schema of an offered tool.
func converse(t *testing.T, req llm.Request, answers ...answer) (calls []llm.ToolCall, text string) {
	t.Helper()
	for range 10 {
		resp := generate(t, req)
		if len(resp.Calls) == 0 {
			if resp.StopReason != llm.StopEndTurn {
				t.Errorf("stopped by %q", resp.StopReason)
			}
			return calls, resp.Text
		}
		if resp.StopReason != llm.StopToolUse {
			t.Errorf("stopped by %q with calls", resp.StopReason)
		}
		results := llm.Message{Role: llm.RoleTool}
		for _, c := range resp.Calls {
			validate(t, req.Tools, c)
			next := ok
			if len(answers) > 0 {
				next, answers = answers[0], answers[1:]
			}
			results.Results = append(results.Results,
				llm.ToolResult{CallID: c.ID, Name: c.Name, Content: next.content, IsError: next.isError})
			calls = append(calls, c)
		}
		req.Messages = append(req.Messages, resp.Message, results)
	}
	t.Fatalf("no end after %d calls: %+v", len(calls), calls)
	return nil, ""
}

// validate checks a call against the tool's schema with a real validator.
func validate(t *testing.T, tools []llm.Tool, call llm.ToolCall) {
	t.Helper()
	for _, tool := range tools {
		if tool.Name != call.Name {
			continue
		}
		if err := invalid(tool.Parameters, string(call.Arguments)); err != nil {
			t.Errorf("%s %s: %v", call.Name, call.Arguments, err)
		}
		return
	}
	t.Errorf("%s was not offered", call.Name)
}

func invalid(schemaText json.RawMessage, instance string) error {
	if len(schemaText) == 0 {
		return nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schemaText)))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		return err
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(instance))
	if err != nil {
		return err
	}
	return compiled.Validate(v)
}

func names(calls []llm.ToolCall) string {
	var list []string
	for _, c := range calls {
		list = append(list, c.Name)
	}
	return strings.Join(list, " ")
}

func arguments(t *testing.T, c llm.ToolCall) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(c.Arguments), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestName(t *testing.T) {
	if got := New().Name(); got != "demo" {
		t.Errorf("name is %q", got)
	}
	if got := generate(t, chatRequest("hi")).Model; got != "demo" {
		t.Errorf("model is %q", got)
	}
}

func TestDeterministic(t *testing.T) {
	for _, req := range []llm.Request{
		planRequest(`null`), advanceRequest(`{"number":2,"title":"Note","skill":"save_memory"}`), chatRequest("remember x"),
	} {
		first := generate(t, req)
		for range 50 {
			if again := generate(t, req); !reflect.DeepEqual(first, again) {
				t.Fatalf("\n%+v\n%+v", first, again)
			}
		}
	}
}

func TestStreamAddsUp(t *testing.T) {
	for _, req := range []llm.Request{planRequest(`null`), chatRequest("hi"), chatRequest("remember that tea is hot")} {
		whole := generate(t, req)
		var text string
		calls := make([]llm.ToolCall, len(whole.Calls))
		deltas := 0
		resp, err := New().Generate(t.Context(), req, func(d llm.Delta) {
			deltas++
			text += d.Text
			if c := d.Call; c != nil {
				calls[c.Index].ID += c.ID
				calls[c.Index].Name += c.Name
				calls[c.Index].Arguments += c.Arguments
			}
		})
		if err != nil || !reflect.DeepEqual(resp, whole) {
			t.Errorf("streamed %+v, %v, whole %+v", resp, err, whole)
		}
		if text != whole.Text || deltas < 3 || len(calls) > 0 && !reflect.DeepEqual(calls, whole.Calls) {
			t.Errorf("%d deltas: %q %+v", deltas, text, calls)
		}
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	deltas := 0
	_, err := New().Generate(ctx, chatRequest("hi"), func(llm.Delta) {
		deltas++
		cancel()
	})
	if deltas != 1 || llm.ClassOf(err) != llm.ClassCanceled || !errors.Is(err, context.Canceled) {
		t.Errorf("%d deltas, %v", deltas, err)
	}
	if _, err = New().Generate(ctx, chatRequest("hi"), nil); llm.ClassOf(err) != llm.ClassCanceled {
		t.Errorf("got %v", err)
	}
}

func TestUsage(t *testing.T) {
	req := chatRequest("12345")
	req.System, req.Tools = "1234", nil
	resp := generate(t, req)
	want := llm.Usage{PromptTokens: 3, CompletionTokens: (len([]rune(resp.Text)) + 3) / 4}
	if resp.Usage != want {
		t.Errorf("got %+v, want %+v", resp.Usage, want)
	}
}

func TestMaxTokens(t *testing.T) {
	for _, req := range []llm.Request{chatRequest("hi"), planRequest(`null`)} {
		req.MaxTokens = 5
		resp := generate(t, req)
		if resp.StopReason != llm.StopMaxTokens || resp.Usage.CompletionTokens != 5 || len(resp.Calls) != 0 {
			t.Errorf("got %+v", resp)
		}
	}
}

// The demo model refuses what a provider would refuse.
func TestRefusesBrokenConversations(t *testing.T) {
	hi := llm.Message{Role: llm.RoleUser, Text: "hi"}
	asks := llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: "1", Name: "save_memory"}}}
	for name, messages := range map[string][]llm.Message{
		"no messages":       nil,
		"no result":         {hi, asks},
		"result too late":   {hi, asks, hi},
		"result of another": {hi, asks, {Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: "2"}}}},
		"unknown role":      {{Role: "robot", Text: "hi"}},
	} {
		_, err := New().Generate(t.Context(), llm.Request{Messages: messages}, nil)
		if llm.ClassOf(err) != llm.ClassBadRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
