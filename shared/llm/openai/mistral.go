package openai

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// mistrals matches the names of Mistral's models, also when another provider offers them.
var mistrals = pattern.New(`(?i)[sx]tral`)

const (
	// note begins what the system says within a conversation where the model takes it from a user only.
	note = "[Note of the system, not of the user]\n"
	// heard is what the assistant says between a result and the next word of a user.
	heard = "I have read the result."
)

// forMistral returns the messages with the ids and in the order that Mistral's models demand.
func forMistral(in []message) []message {
	var out []message
	var last llm.Role
	for _, m := range in {
		if last != "" {
			m = asUser(m)
		}
		if m.Role == llm.RoleUser && last == llm.RoleTool {
			text := heard
			out = append(out, message{Role: llm.RoleAssistant, Content: &text})
		}
		for i := range m.ToolCalls {
			m.ToolCalls[i].ID = nine(m.ToolCalls[i].ID)
		}
		if m.Role == llm.RoleTool {
			m.ToolCallID = nine(m.ToolCallID)
		}
		out, last = append(out, m), m.Role
	}
	return out
}

// asUser returns a message of the system as one of a user, and any other as it is.
func asUser(m message) message {
	if m.Role == llm.RoleSystem {
		text := note + *m.Content
		m.Role, m.Content = llm.RoleUser, &text
	}
	return m
}

var nineSigns = pattern.New(`^[a-zA-Z0-9]{9}$`)

// nine returns an id of nine letters and digits. It keeps a valid id. Any other id is replaced, always with the same one.
func nine(id string) string {
	if nineSigns().MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
