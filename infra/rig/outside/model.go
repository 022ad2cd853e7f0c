package outside

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// asked is a request to the model.
type asked struct {
	Stream   bool
	Messages []struct {
		Role, Content string
		CallID        string `json:"tool_call_id"`
	}
}

// answer responds like a model.
func answer(out http.ResponseWriter, raw []byte) {
	var a asked
	_ = json.Unmarshal(raw, &a) // the product encodes it correctly
	message, reason := a.obey()
	usage := map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !a.Stream {
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(map[string]any{
			"id": "x", "model": "x", "usage": usage,
			"choices": []any{map[string]any{"index": 0, "finish_reason": reason, "message": message}},
		})
		return
	}
	out.Header().Set("Content-Type", "text/event-stream")
	piece := func(choices ...any) {
		// only strings and numbers, which always encode
		raw, _ := json.Marshal(map[string]any{"id": "x", "model": "x", "choices": choices, "usage": usage})
		fmt.Fprintf(out, "data: %s\n\n", raw)
		_ = http.NewResponseController(out).Flush() // fails only if the client has disconnected
	}
	for _, word := range strings.SplitAfter(message["content"].(string), " ") {
		piece(map[string]any{"index": 0, "delta": map[string]any{"content": word}})
	}
	delete(message, "content")
	piece(map[string]any{"index": 0, "delta": message, "finish_reason": reason})
	fmt.Fprint(out, "data: [DONE]\n\n")
}

// obey returns the next message and its finish reason.
func (a asked) obey() (message map[string]any, reason string) {
	var system, said string
	made := 0
	for _, m := range a.Messages {
		switch m.Role {
		case "system":
			system = m.Content
		case "user":
			said, made = m.Content, 0
		case "tool":
			if !strings.HasPrefix(m.Content, "Error: ") || strings.Contains(m.Content, "don't make it again") {
				made++ // otherwise the model repeats the call
			}
		}
	}
	name, arguments := "", ""
	if strings.Contains(system, "task: work") {
		return a.note()
	}
	if strings.Contains(system, "task: advance") {
		name, arguments = nextOf(said, made)
	} else if skill, key, _ := strings.Cut(said, " "); made == 0 && slices.Contains([]string{"note", "pay", "jot"}, skill) {
		name, arguments = skill, fmt.Sprintf(`{"key":%q}`, key)
	}
	if name == "" {
		return map[string]any{"role": "assistant", "content": "It is done."}, "stop"
	}
	return map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
		"index": 0, "id": fmt.Sprintf("call-%d-%d", len(said), made), "type": "function", "function": map[string]string{"name": name, "arguments": arguments},
	}}}, "tool_calls"
}

// note returns the next call for a task whose input has a key and a number of notes: one note in each step;
// without a number, one under the key itself.
// Which one is next is seen from the newest result, because older ones may have been summarised.
func (a asked) note() (message map[string]any, reason string) {
	var b struct {
		Task struct {
			Input struct {
				Key   string
				Notes int
			}
		}
	}
	made := 0
	for _, m := range a.Messages {
		if m.Role == "user" && strings.HasPrefix(m.Content, "{") && b.Task.Input.Key == "" {
			_ = json.Unmarshal([]byte(m.Content), &b) // another message has no key
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(m.CallID, "note-")); m.Role == "tool" && err == nil {
			made = n + 1
		}
	}
	if in := b.Task.Input; made < max(1, in.Notes) {
		key := in.Key
		if in.Notes > 0 {
			key = fmt.Sprintf("%s.%d", in.Key, made)
		}
		return map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("note-%d", made), "type": "function",
			"function": map[string]string{"name": "note", "arguments": fmt.Sprintf(`{"key":%q}`, key)},
		}}}, "tool_calls"
	}
	return map[string]any{"role": "assistant", "content": fmt.Sprintf("%d notes are made.", made)}, "stop"
}

// nextOf returns the next call for a step, given the number of calls that were made.
func nextOf(brief string, made int) (name, arguments string) {
	var b struct {
		Objective struct{ ID string }
		Step      struct {
			Number int
			Skill  string
			Inputs json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(brief[max(0, strings.Index(brief, "{")):]), &b); err != nil {
		return "", ""
	}
	switch made {
	case 0:
		return b.Step.Skill, string(b.Step.Inputs)
	case 1:
		return "advance_plan", fmt.Sprintf(`{"objectiveId":%q,"step":%d,"result":"done"}`, b.Objective.ID, b.Step.Number)
	case 2:
		return "complete_objective", fmt.Sprintf(`{"objectiveId":%q,"summary":"done"}`, b.Objective.ID)
	}
	return "", ""
}
