package openai

import (
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	Stream              bool           `json:"stream,omitempty"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       llm.Role `json:"role"`
	Content    *string  `json:"content,omitempty"`
	ToolCalls  []call   `json:"tool_calls,omitempty"`
	ToolCallID string   `json:"tool_call_id,omitempty"`
	extras
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`

	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string     `json:"type"`
	Function definition `json:"function"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// dialect is what servers differ in by the model.
type dialect struct {
	renamed bool // it takes the limit of an answer as max_completion_tokens
	plain   bool // it takes no stream_options
	led     bool // its template takes the system's words at the beginning only
	bare    bool // it takes nothing back of what a model thought
	thinks  bool // its answers begin within a thought, and have only its end
}

// dialectOf returns the dialect of a model as far as it is known.
func (m *Model) dialectOf(model string) dialect {
	if d, ok := m.learned.Load(model); ok {
		return d.(dialect) //nolint:forcetypeassert // only Generate stores them
	}
	return dialect{renamed: m.own || renamedLimit().MatchString(model), plain: m.mistral, thinks: thinkers().MatchString(model)}
}

// after returns the dialect after a failure. It is d if the failure does not say that d was wrong.
func (d dialect) after(err error) dialect {
	text := strings.ToLower(err.Error())
	switch {
	case strings.Contains(text, "system message must be at the beginning"): // some servers answer 500
		d.led = true
	case llm.ClassOf(err) != llm.ClassBadRequest:
	case strings.Contains(text, "'max_tokens' is not supported"):
		d.renamed = true
	case strings.Contains(text, "stream_options"):
		d.plain = true
	case strings.Contains(text, "reasoning") && (strings.Contains(text, "support") || strings.Contains(text, "not permitted")):
		d.bare = true
	}
	return d
}

// encode returns the JSON body of a request.
func (m *Model) encode(req llm.Request, d dialect, stream bool) ([]byte, error) {
	out := request{Model: req.Model, Temperature: req.Temperature, Stream: stream, Messages: m.messages(req)}
	if d.bare {
		for i := range out.Messages {
			out.Messages[i].extras = extras{ExtraContent: out.Messages[i].ExtraContent}
		}
	}
	if mistrals().MatchString(req.Model) {
		out.Messages = forMistral(out.Messages)
	} else if d.led {
		for i := 1; i < len(out.Messages); i++ {
			out.Messages[i] = asUser(out.Messages[i])
		}
	}
	if stream && !d.plain {
		out.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if limit := max(req.MaxTokens, 0); d.renamed {
		out.MaxCompletionTokens = limit
	} else {
		out.MaxTokens = limit
	}
	for _, t := range req.Tools {
		schema, err := wire.Schema(t)
		if err != nil {
			return nil, err
		}
		out.Tools = append(out.Tools, tool{"function", definition{t.Name, t.Description, schema}})
	}
	return wire.Encode(out)
}

// renamedLimit matches OpenAI's models that only take max_completion_tokens, also when another
// provider offers them.
var renamedLimit = pattern.New(`^(?:.*/)?(?:o[1-9]|gpt-[5-9])`)

func (m *Model) messages(req llm.Request) []message {
	out := []message{}
	say := func(role llm.Role, text string) { out = append(out, message{Role: role, Content: &text}) }
	if req.System != "" {
		say(llm.RoleSystem, req.System)
	}
	for _, in := range req.Messages {
		switch in.Role {
		case llm.RoleTool:
			for _, r := range in.Results {
				content := r.Content
				if r.IsError {
					content = "Error: " + content
				}
				out = append(out, message{Role: llm.RoleTool, Content: &content, ToolCallID: m.callID(r.CallID)})
			}
		case llm.RoleAssistant:
			if in.Text == "" && len(in.Calls) == 0 {
				continue // the message is empty, and some servers refuse empty messages
			}
			back := m.carriedIn(in, req.Model)
			said := message{Role: llm.RoleAssistant, extras: back.extras}
			if in.Text != "" {
				said.Content = &in.Text
			}
			for _, c := range in.Calls {
				said.ToolCalls = append(said.ToolCalls, call{
					ID: m.callID(c.ID), Type: "function", Function: function{wire.ToolName(c.Name), string(wire.Object(c.Arguments))},
					ExtraContent: back.Calls[c.ID],
				})
			}
			out = append(out, said)
		default:
			say(in.Role, in.Text)
		}
	}
	return out
}

// maxID is the longest call id that OpenAI and Azure accept. Other providers have longer ids with other
// characters, which have a meaning for them.
const maxID = 40

func (m *Model) callID(id string) string {
	if !m.short {
		return id
	}
	return wire.CallID(id, maxID)
}
