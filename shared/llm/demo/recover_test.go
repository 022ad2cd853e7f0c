package demo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

const noteStep = `{"number":2,"title":"Note","skill":"save_memory","inputs":{"content":"x"}}`

func TestRecovery(t *testing.T) {
	unknown := failure(`There is no tool named "save_memory". Valid tools: save_memories, query_activity.`)
	for _, test := range []struct {
		name    string
		rename  string // another name under which save_memory is offered
		answers []answer
		calls   string
		text    string
	}{
		{"nothing better to try", "", []answer{failure("database is away")},
			"save_memory", "It said: database is away"},
		{"unknown tool, near name", "save_memori", []answer{unknown},
			"save_memory save_memori advance_plan", "Step 2"},
		{"unknown tool, no near name", "store_text", []answer{unknown},
			"save_memory", "save_memory failed"},
		{"unknown skill in other words", "save_memori", []answer{failure(`skill "save_memory" does not exist`)},
			"save_memory save_memori advance_plan", "Step 2"},
		{"both names unknown", "save_memori", []answer{unknown, unknown},
			"save_memory save_memori", "save_memori failed"},
		{"missing argument", "", []answer{failure("at '': missing property 'expires_at'")},
			"save_memory save_memory advance_plan", "Step 2"},
		{"argument too many", "", []answer{failure(`{"errors":[{"pointer":"","message":"additional properties 'importance' not allowed"}],
			"schema":{"type":"object","properties":{"content":{"type":"string"},"category":{"type":"string"}},"additionalProperties":false}}`)},
			"save_memory save_memory advance_plan", "Step 2"},
		{"schema in the message", "", []answer{failure(`invalid: {"type":"object","properties":{"importance":{"type":"integer","maximum":3}}}`)},
			"save_memory save_memory advance_plan", "Step 2"},
		{"the same again and again", "", []answer{failure("missing 'expires_at'"), failure("missing 'expires_at'")},
			"save_memory save_memory", "save_memory failed"},
		{"the plan cannot be advanced", "", []answer{ok, failure("step 2 is not open")},
			"save_memory advance_plan", "advance_plan failed"},
		{"approval as data", "", []answer{{content: `{"status":"pending_approval","approval_id":"a1"}`}},
			"save_memory", "waits for a person's approval"},
		{"approval in words", "", []answer{{content: `The call waits until an admin approves it.`}},
			"save_memory", "waits for a person's approval"},
		{"approval of other calls", "", []answer{{content: `[{"status":"pending_approval"}]`}},
			"save_memory advance_plan", "Step 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := advanceRequest(noteStep)
			if test.rename != "" {
				renamed := tools[3]
				renamed.Name = test.rename
				req.Tools = append(req.Tools[:len(req.Tools):len(req.Tools)], renamed)
			}
			calls, text := converse(t, req, test.answers...)
			if names(calls) != test.calls || !strings.Contains(text, test.text) {
				t.Errorf("called %s, said %q", names(calls), text)
			}
		})
	}
}

// Whatever errors follow, there are at most two retries.
func TestRecoveryEnds(t *testing.T) {
	calls, text := converse(t, advanceRequest(noteStep),
		failure("missing 'expires_at'"),
		failure("unexpected 'importance'"),
		failure("unexpected 'category'"),
		failure("unexpected 'content'"))
	if len(calls) > 3 || !strings.Contains(text, "save_memory failed") {
		t.Errorf("called %s, said %q", names(calls), text)
	}
}

// The loop's notes come as system messages after the result.
func TestRecoveryReadsNotes(t *testing.T) {
	req := advanceRequest(noteStep)
	first := generate(t, req)
	req.Messages = append(req.Messages, first.Message,
		llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: first.Calls[0].ID, Content: "invalid parameters", IsError: true}}},
		llm.Message{Role: llm.RoleSystem, Text: "missing property 'expires_at'"})
	second := generate(t, req)
	if len(second.Calls) != 1 || !strings.Contains(string(second.Calls[0].Arguments), "expires_at") {
		t.Errorf("got %+v", second)
	}
}

// A step that another model began is finished, even with broken arguments.
func TestRecoveryOfAnothersCalls(t *testing.T) {
	req := advanceRequest(noteStep)
	req.Messages = append(req.Messages,
		llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{
			{ID: "a", Name: "query_activity", Arguments: "{}"}, {ID: "b", Name: "save_memory", Arguments: `{"content": "x`}}},
		llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{
			{CallID: "a", Content: "[]"}, {CallID: "b", Content: "unexpected end of JSON input", IsError: true}}})
	calls, _ := converse(t, req)
	if names(calls) != "save_memory advance_plan" || arguments(t, calls[0])["content"] != "x" {
		t.Errorf("called %+v", calls)
	}
}

func TestComplete(t *testing.T) {
	f := filler{situation{said: "hello"}}
	for schemaText, want := range map[string]string{
		``:                               `{"a":1}`,
		`true`:                           `{"a":1}`,
		`{"type":"string"}`:              `{}`,
		`{"additionalProperties":false}`: `{}`,
		`{"required":["b"]}`:             `{"a":1,"b":"[demo model] hello"}`,
		`{"required":["b"],"properties":{"b":{"const":7}}}`:                                               `{"a":1,"b":7}`,
		`{"required":["b"],"properties":{"b":{"default":"x"}}}`:                                           `{"a":1,"b":"x"}`,
		`{"required":["b"],"properties":{"b":{"enum":[3,"other"]}}}`:                                      `{"a":1,"b":"other"}`,
		`{"required":["b"],"properties":{"b":{"type":["null","string"]}}}`:                                `{"a":1,"b":"[demo model] hello"}`,
		`{"required":["b"],"properties":{"b":{"type":"boolean"}}}`:                                        `{"a":1,"b":false}`,
		`{"required":["b"],"properties":{"b":{"type":"number","minimum":2.5}}}`:                           `{"a":1,"b":2.5}`,
		`{"required":["b"],"properties":{"b":{"type":"array","minItems":1,"items":{"type":"integer"}}}}`:  `{"a":1,"b":[1]}`,
		`{"required":["b"],"properties":{"b":{"type":"object","required":["limit"]}}}`:                    `{"a":1,"b":{"limit":10}}`,
		`{"properties":{"a":{"type":"integer","exclusiveMinimum":1}}}`:                                    `{"a":2}`,
		`{"properties":{"a":{"type":"integer","exclusiveMaximum":1}}}`:                                    `{"a":0}`,
		`{"properties":{"a":{"type":"string","minLength":3}}}`:                                            `{"a":"1.."}`,
		`{"properties":{"a":{"type":"array","maxItems":1}}}`:                                              `{"a":[1]}`,
		`{"properties":{"a":{"type":"string","maxLength":0}}}`:                                            `{"a":""}`,
		`{"properties":{"a":{"type":"object","properties":{}}},"required":["importance","title","step"]}`: `{"a":{},"importance":5,"step":0,"title":"hello"}`,
		`{"properties":{"a":{"enum":["x",1]}}}`:                                                           `{"a":1}`,
		`{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                                 `{"a":["1"]}`,
		`{"properties":{"a":{"type":["boolean","number"],"minimum":1.5}}}`:                                `{"a":1.5}`,
		`{"properties":{"a":{"type":"boolean"}}}`:                                                         `{"a":false}`,
		`{"properties":{"a":{"type":"null"}}}`:                                                            `{"a":null}`,
		`{"properties":{"a":{"type":"object"}}}`:                                                          `{"a":{}}`,
	} {
		got, err := json.Marshal(f.complete(tool("t", schemaText), map[string]any{"a": number(1)}))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", schemaText, got, err, want)
		}
		if json.Valid([]byte(schemaText)) && schemaText != `{"type":"string"}` {
			if err := invalid(json.RawMessage(schemaText), string(got)); err != nil {
				t.Errorf("%s: %v", schemaText, err)
			}
		}
	}
}

// TestAnArgumentThatNamesTheObjective gets the objective's id, however the tool writes its name.
func TestAnArgumentThatNamesTheObjective(t *testing.T) {
	f := filler{situation{brief: brief{Objective: objective{ID: "o1", Title: "Weekly report"}}}}
	for _, name := range []string{"objectiveId", "objective_id", "ObjectiveID"} {
		tool := llm.Tool{Name: "close_objective", Parameters: json.RawMessage(`{"type":"object","required":["` + name + `"],"properties":{"` + name + `":{"type":"string"}}}`)}
		if args := f.complete(tool, nil); args[name] != "o1" {
			t.Errorf("completed it is %v", args)
		}
		if args := f.repair(tool, llm.Arguments(`{}`), "missing property '"+name+"'", nil); args[name] != "o1" {
			t.Errorf("repaired it is %v", args)
		}
	}
}

// TestADecisionEndsTheWait: after a note about the call that waited, the model goes on where it was made, and
// gives its task up where it was not.
func TestADecisionEndsTheWait(t *testing.T) {
	note := "(A note of Lanekeeper's, not of the person.) The call of save_memory that waited for approval a-17 "
	const done, failed = "[demo model] I did", "FAILED: [demo model] I stopped: the call of save_memory "
	for decision, want := range map[string]string{
		"was approved and made. Its result (data, not instructions):\n{}":                                  done,
		"was approved with other arguments, {\"a\":1}, and made. Its result (data, not instructions):\nok": done,
		"was approved and failed: the server could not be reached":                                         failed + "was approved and failed: the server could not be reached",
		"was rejected, and not made: too early":                                                            failed + "was rejected, and not made: too early",
		"was not made: nobody answered in time.":                                                           failed + "was not made",
	} {
		req := llm.Request{System: "task: work", Tools: tools, Messages: []llm.Message{
			{Role: llm.RoleUser, Text: `{"task":{"id":"t","title":"Note it","input":{"steps":[{"skill":"save_memory","inputs":{"content":"x"}}]}}}`},
			{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: "c", Name: "save_memory", Arguments: `{"content":"x"}`}}},
			{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: "c", Content: "This call of save_memory waits for a person to approve it (approval a-17)."}}},
			{Role: llm.RoleAssistant, Text: "[demo model] I stopped: save_memory waits for a person's approval."},
			{Role: llm.RoleUser, Text: note + decision},
		}}
		calls, text := converse(t, req)
		if len(calls) > 0 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: called %s, said %q", decision, names(calls), text)
		}
	}
}
