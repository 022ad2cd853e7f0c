package llm

import (
	"bytes"
	"encoding/json"
)

// MessageFormat is the version of Message's JSON. Messages are stored in step
// rows together with it; a change that an older reader would misread raises it.
const MessageFormat = 1

// Role says who wrote a message.
type Role string

// The roles. A system message in mid-conversation is a note of the loop;
// models that take none get it by their adapter in another shape.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system"
)

// Message is one entry of a conversation. Every call of an assistant's message
// has its result in the tool message that follows it, or providers refuse the
// conversation.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`   // assistant only
	Results []ToolResult `json:"results,omitempty"` // tool only, in the order of the calls
	Opaque  *Opaque      `json:"opaque,omitempty"`  // assistant only
}

// Opaque is what a provider wants back with an answer and its calls, such as what its
// model thought, and signatures of that. The adapter that made it is the only reader.
type Opaque struct {
	Provider string `json:"provider"` // and its host, where there may be several
	Model    string `json:"model"`    // that was asked
	// Data is JSON of the adapter's. It is a string so that it comes back as it is, byte
	// by byte.
	Data string `json:"data"`
}

// OpaqueFor is the data of what the message keeps for a provider's model; empty: none,
// or that of another, whom it does not concern.
func (m Message) OpaqueFor(provider, model string) string {
	if o := m.Opaque; o != nil && o.Provider == provider && o.Model == model {
		return o.Data
	}
	return ""
}

// ToolCall is a model's wish to use a tool.
type ToolCall struct {
	ID        string    `json:"id"` // unique in the conversation
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

// ToolResult is what came of a call.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"` // the model is to read it and do better
}

// Arguments are a call's arguments as the model wrote them: meant to be a JSON
// object, but possibly broken. It is a string and not a json.RawMessage because
// it has to be stored, logged and compared as it is: broken JSON in a RawMessage
// cannot be encoded at all, and a valid one comes back with other spacing and,
// from a jsonb column, with its keys in another order.
type Arguments string

// Object returns the arguments for those who need a JSON object, and whether
// they are one. Blank arguments are {}, which is what models mean by them.
func (a Arguments) Object() (json.RawMessage, bool) {
	raw := bytes.TrimSpace([]byte(a))
	if len(raw) == 0 {
		return json.RawMessage("{}"), true
	}
	if raw[0] != '{' || !json.Valid(raw) {
		return nil, false
	}
	return raw, true
}
