package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

type request struct {
	Model       string      `json:"model"`
	MaxTokens   int         `json:"max_tokens"`
	System      []block     `json:"system,omitempty"`
	Messages    []message   `json:"messages"`
	Tools       []tool      `json:"tools,omitempty"`
	ToolChoice  *toolChoice `json:"tool_choice,omitempty"`
	Temperature *float64    `json:"temperature,omitempty"`
	Stream      bool        `json:"stream,omitempty"`
}

type message struct {
	Role    llm.Role `json:"role"`
	Content []block  `json:"content"`
}

// block is a text, a call (tool_use) or a result (tool_result).
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      string          `json:"content,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type string `json:"type"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// mark sets the marks of the cache. The last message gets one if a later request may continue from
// there.
func (r *request) mark() {
	here := &cacheControl{"ephemeral"}
	if n := len(r.Tools); n > 0 {
		r.Tools[n-1].CacheControl = here
	}
	if n := len(r.System); n > 0 {
		r.System[n-1].CacheControl = here
	}
	if n := len(r.Messages); n > 1 || n == 1 && len(r.Tools) > 0 {
		if last := r.Messages[n-1]; last.Role == llm.RoleUser {
			last.Content[len(last.Content)-1].CacheControl = here
		}
	}
}

// maxTemperature is the highest that Anthropic takes.
const maxTemperature = 1

// encode returns the JSON body of a request. Model and MaxTokens must be set.
func encode(req llm.Request, stream bool) ([]byte, error) {
	out := request{Model: req.Model, MaxTokens: req.MaxTokens, Messages: messages(req.Messages), Stream: stream}
	if t := req.Temperature; t != nil {
		out.Temperature = new(min(*t, maxTemperature))
	}
	if !blank(req.System) {
		out.System = []block{{Type: "text", Text: req.System}}
	}
	for _, t := range req.Tools {
		schema, err := wire.Schema(t)
		if err != nil {
			return nil, err
		}
		out.Tools = append(out.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	if len(out.Tools) == 0 {
		if out.Tools = called(req.Messages); len(out.Tools) > 0 {
			out.ToolChoice = &toolChoice{"none"}
		}
	}
	out.mark()
	return wire.Encode(out)
}

// called returns the tools that the messages call.
func called(messages []llm.Message) (tools []tool) {
	for _, m := range messages {
		for _, c := range m.Calls {
			name := wire.ToolName(c.Name)
			if !slices.ContainsFunc(tools, func(t tool) bool { return t.Name == name }) {
				schema, _ := wire.Schema(llm.Tool{}) // any object
				tools = append(tools, tool{Name: name, InputSchema: schema})
			}
		}
	}
	return tools
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
