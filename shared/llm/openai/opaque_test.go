package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
)

// sentBack returns the assistant's message in the last request.
func sentBack(t *testing.T, s *llmtest.Server) (message, call map[string]any) {
	t.Helper()
	asked := s.Asked()
	var body struct{ Messages []map[string]any }
	if err := json.Unmarshal(asked[len(asked)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, m := range body.Messages {
		if m["role"] == "assistant" {
			call, _ := m["tool_calls"].([]any)[0].(map[string]any)
			return m, call
		}
	}
	t.Fatalf("no message of the assistant: %s", asked[len(asked)-1].Body)
	return nil, nil
}

// next returns the request after an answer with a call, with the answer as the journal stores it.
func next(t *testing.T, model string, answer llm.Message) llm.Request {
	t.Helper()
	raw, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var stored llm.Message
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	req := user("go")
	req.Model = model
	req.Messages = append(req.Messages, stored, llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: stored.Calls[0].ID, Name: "look", Content: "{}"}}})
	return req
}

// The model's thinking and its signatures are sent back to the same server and model, whether they
// were streamed or not. They are sent to no other.
func TestWhatAServerWantsBackIsSentBack(t *testing.T) {
	const (
		call    = `{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"}%s}`
		signed  = `,"extra_content":{"google":{"thought_signature":"c2ln+/="}}`
		wholeOf = `{"choices":[{"index":0,"message":{"role":"assistant","content":null,%s"tool_calls":[%s]},"finish_reason":"tool_calls"}]}`
	)
	want := map[string]any{
		"reasoning_content": "First <look>, then act.", "reasoning": "First look.",
		"reasoning_details": []any{
			map[string]any{"type": "reasoning.text", "index": 0.0, "text": "First look, then act.", "signature": "sig=", "format": "f"},
			map[string]any{"type": "reasoning.encrypted", "index": 1.0, "data": "ZGF0YQ==", "id": "r1"},
		},
		"extra_content": map[string]any{"google": map[string]any{"thought_signature": "message"}},
	}
	members, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	whole := llmtest.JSON(http.StatusOK, fmt.Sprintf(wholeOf, strings.TrimSuffix(strings.TrimPrefix(string(members), "{"), "}")+",", fmt.Sprintf(call, signed)))
	streamed := func() http.HandlerFunc {
		var events []string
		for _, delta := range []string{
			`{"role":"assistant","content":"","reasoning_content":"First <look>, ","reasoning":"First "}`,
			`{"reasoning_content":"then act.","reasoning":"look."}`,
			`{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"First look, ","signature":null,"format":"f"}]}`,
			`{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"then act.","signature":"sig="}]}`,
			`{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"ZGF0YQ==","id":"r1"}]}`,
			`{"extra_content":{"google":{"thought_signature":"message"}}}`,
			`{"tool_calls":[` + fmt.Sprintf(call, signed) + `]}`,
		} {
			events = append(events, event("m", delta, "null", "null"))
		}
		return llmtest.Events(append(events, event("m", `{}`, `"tool_calls"`, "null"), "data: [DONE]\n\n")...)
	}()
	done := llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":"Done."},"finish_reason":"stop"}]}`)
	for name, turn := range map[string]http.HandlerFunc{"whole": whole, "streamed": streamed} {
		m, s := asking(t, turn, done, done)
		var onDelta func(llm.Delta)
		if name == "streamed" {
			onDelta = func(llm.Delta) {}
		}
		first := user("go")
		first.Model = "thinker"
		resp, err := m.Generate(t.Context(), first, onDelta)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := m.Generate(t.Context(), next(t, "thinker", resp.Message), nil); err != nil {
			t.Fatal(err)
		}
		message, called := sentBack(t, s)
		for field, value := range want {
			if !reflect.DeepEqual(message[field], value) {
				t.Errorf("%s: %s is sent back as %v", name, field, message[field])
			}
		}
		if !reflect.DeepEqual(called["extra_content"], map[string]any{"google": map[string]any{"thought_signature": "c2ln+/="}}) {
			t.Errorf("%s: the call is sent back as %v", name, called)
		}
		nothing := func(s *llmtest.Server) {
			t.Helper()
			message, called := sentBack(t, s)
			for field := range want {
				if message[field] != nil || called[field] != nil {
					t.Errorf("%s: another is told %s: %v", name, field, message)
				}
			}
		}
		if _, err := m.Generate(t.Context(), next(t, "other", resp.Message), nil); err != nil {
			t.Fatal(err)
		}
		nothing(s)
		other, elsewhere := asking(t, done)
		if _, err := other.Generate(t.Context(), next(t, "thinker", resp.Message), nil); err != nil {
			t.Fatal(err)
		}
		nothing(elsewhere)
	}
}

// A server that sends extras in unknown forms does not cause a failure.
func TestThoughtsInOtherShapesArePassedOver(t *testing.T) {
	for _, extra := range []string{
		`"reasoning_content":{"x":1}`, `"reasoning":[1]`, `"reasoning_details":"x"`, `"reasoning_details":[1,null]`, `"reasoning_content":null`, `"extra_content":null`,
	} {
		m, _ := asking(t, llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":"a",`+extra+`},"finish_reason":"stop"}]}`))
		resp, err := m.Generate(t.Context(), user("go"), nil)
		if err != nil || resp.Text != "a" || resp.Opaque != nil {
			t.Errorf("%s: %+v, %v", extra, resp, err)
		}
	}
}

// Details that are not pieces of one detail stay separate.
func TestDetailsStayApart(t *testing.T) {
	pieces := []string{
		`{"type":"reasoning.text","text":"a"}`, `{"type":"reasoning.text","text":"b"}`, // without an index, each is separate
		`{"type":"reasoning.text","index":0,"text":"c"}`, `{"type":"reasoning.summary","index":0,"summary":"d"}`, `{"type":"reasoning.summary","index":1,"summary":"e"}`,
	}
	m, s := asking(t, llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":null,"reasoning_details":[`+strings.Join(pieces, ",")+
		`],"tool_calls":[{"id":"call_1","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
		llmtest.JSON(http.StatusOK, `{"choices":[{"index":0,"message":{"content":"Done."},"finish_reason":"stop"}]}`))
	resp, err := m.Generate(t.Context(), user("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), next(t, "", resp.Message), nil); err != nil {
		t.Fatal(err)
	}
	message, _ := sentBack(t, s)
	raw, _ := json.Marshal(message["reasoning_details"])
	var got []json.RawMessage
	if err := json.Unmarshal(raw, &got); err != nil || len(got) != len(pieces) {
		t.Fatalf("sent back as %s, %v", raw, err)
	}
	if slices.ContainsFunc(got, func(r json.RawMessage) bool { return !json.Valid(r) }) {
		t.Errorf("sent back as %s", raw)
	}
}

// TestAServerThatTakesNoThinkingBack, as Groq does with some models: the conversation comes again without it.
func TestAServerThatTakesNoThinkingBack(t *testing.T) {
	for _, why := range []string{
		"'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported)]",
		"messages[1].reasoning: reasoning is not supported with this model",
		"messages.1.assistant.reasoning_content: Extra inputs are not permitted",
	} {
		thinks := llmtest.JSON(200, `{"model":"m","choices":[{"index":0,"message":{"content":null,"reasoning":"I should look.",`+
			`"tool_calls":[{"id":"A","type":"function","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`)
		refuses := llmtest.JSON(400, openAIError(why, "invalid_request_error", "null"))
		hi := llmtest.JSON(200, wholeAnswer(llm.Response{Message: llm.Message{Text: "Hi."}, StopReason: llm.StopEndTurn, Model: "m"}))
		m, s := asking(t, thinks, refuses, hi, hi, refuses)
		req := user("go")
		first, err := m.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, first.Message, llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: "A", Name: "look"}}})
		for range 2 {
			if resp, err := m.Generate(t.Context(), req, nil); err != nil || resp.Text != "Hi." {
				t.Fatalf("got %+v, %v", resp, err)
			}
		}
		var with []bool
		for _, a := range s.Asked() {
			with = append(with, bytes.Contains(a.Body, []byte("I should look.")))
		}
		if !slices.Equal(with, []bool{false, true, false, false}) {
			t.Errorf("%s: the thinking was sent %v", why, with)
		}
		if _, err := m.Generate(t.Context(), user("go"), nil); llm.ClassOf(err) != llm.ClassBadRequest { // without any there
			t.Errorf("%s: got %v", why, err)
		}
	}
}

// TestARefusalForAnotherReason that names the thinking beside it does not keep it back from later requests: servers
// that want it back would refuse those.
func TestARefusalForAnotherReason(t *testing.T) {
	thinks := llmtest.JSON(200, `{"model":"m","choices":[{"index":0,"message":{"content":"Hm.","reasoning_content":"I should look."},"finish_reason":"stop"}]}`)
	refuses := llmtest.JSON(400, openAIError("the reasoning model does not support this tool", "invalid_request_error", "null"))
	m, s := asking(t, thinks, refuses, refuses, thinks)
	req := user("go")
	first, err := m.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, first.Message, llm.Message{Role: llm.RoleUser, Text: "go on"})
	if _, err := m.Generate(t.Context(), req, nil); llm.ClassOf(err) != llm.ClassBadRequest {
		t.Errorf("got %v", err)
	}
	if _, err := m.Generate(t.Context(), req, nil); err != nil || !bytes.Contains(s.Asked()[3].Body, []byte("I should look.")) {
		t.Errorf("later the thinking is kept back, %v", err)
	}
}
