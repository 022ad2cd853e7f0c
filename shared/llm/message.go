package llm

import (
	"bytes"
	"encoding/json"
)

// Role says who wrote a message.
type Role string

// The roles. A system message in the middle of a conversation is a note of the agent's loop. For
// models without such messages, the adapter sends it in another form.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleSystem    Role = "system"
)

// Message is one entry of a conversation. The tool message after an assistant's message must hold
// the result of each of its calls. Otherwise providers refuse the conversation.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []ToolCall   `json:"calls,omitempty"`   // assistant only
	Results []ToolResult `json:"results,omitempty"` // tool only, in the order of the calls
	Opaque  *Opaque      `json:"opaque,omitempty"`  // assistant only
}

// Opaque is data that a provider wants back with an answer and its calls, such as the model's
// thinking and signatures of it. Only the adapter that created it reads it.
type Opaque struct {
	Provider string `json:"provider"` // with its host, if there can be several
	Model    string `json:"model"`    // the requested model
	// Data is JSON of the adapter. It is a string so that storing it keeps every byte.
	Data string `json:"data"`
}

// OpaqueFor returns the message's opaque data for a provider's model. It returns "" if there is
// none, or if the data belongs to another provider or model.
func (m Message) OpaqueFor(provider, model string) string {
	if o := m.Opaque; o != nil && o.Provider == provider && o.Model == model {
		return o.Data
	}
	return ""
}

// ToolCall is a model's request to use a tool.
type ToolCall struct {
	ID        string    `json:"id"` // unique in the conversation
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

// ToolResult is the result of a call.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"` // the model should read the error and correct its call
}

// Arguments are a call's arguments as the model wrote them. They should be a JSON object, but may
// be broken. The type is a string and not json.RawMessage because arguments are stored, logged and
// compared unchanged. Broken JSON in a RawMessage cannot be encoded at all. Valid JSON comes back
// with other spacing and, from a jsonb column, with its keys in another order.
type Arguments string

// Object returns the arguments as a JSON object, and whether they are one. Blank arguments return
// {}, which is what models mean by them.
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
