package anthropic

import (
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// note is the beginning of a note of the loop within a user's message.
const note = "[Note of the system, not of the user]\n"

// noOutput replaces the empty output of a tool: an error must not be empty.
const noOutput = "(no output)"

// maxID is the longest call id that we send to Anthropic. Its own ids have 30 characters.
const maxID = 64

// messages converts a conversation to messages with alternating roles.
func messages(in []llm.Message) []message {
	c := conversation{messages: []message{}}
	for _, m := range in {
		switch m.Role {
		case llm.RoleAssistant:
			c.say(llm.RoleAssistant, m.Text)
			for _, call := range m.Calls {
				c.add(llm.RoleAssistant, block{Type: "tool_use", ID: wire.CallID(call.ID, maxID), Name: wire.ToolName(call.Name),
					Input: wire.Object(call.Arguments)})
			}
		case llm.RoleTool:
			for _, r := range m.Results {
				content := r.Content
				if blank(content) {
					content = noOutput
				}
				c.add(llm.RoleUser, block{Type: "tool_result", ToolUseID: wire.CallID(r.CallID, maxID), Content: content, IsError: r.IsError})
			}
		case llm.RoleSystem:
			if !blank(m.Text) {
				c.say(llm.RoleUser, note+m.Text)
			}
		default:
			c.say(llm.RoleUser, m.Text)
		}
	}
	return c.sorted()
}

type conversation struct{ messages []message }

func (c *conversation) say(role llm.Role, text string) {
	if !blank(text) {
		c.add(role, block{Type: "text", Text: text})
	}
}

func (c *conversation) add(role llm.Role, b block) {
	if n := len(c.messages); n == 0 || c.messages[n-1].Role != role {
		c.messages = append(c.messages, message{Role: role})
	}
	last := &c.messages[len(c.messages)-1]
	last.Content = append(last.Content, b)
}

// sorted puts results first in each message.
func (c *conversation) sorted() []message {
	rank := func(b block) int {
		if b.Type == "tool_result" {
			return 0
		}
		return 1
	}
	for _, m := range c.messages {
		slices.SortStableFunc(m.Content, func(a, b block) int { return rank(a) - rank(b) })
	}
	return c.messages
}
