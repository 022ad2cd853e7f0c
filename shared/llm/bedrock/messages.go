package bedrock

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// note is the beginning of a note of the loop within a user's message.
const note = "[Note of the system, not of the user]\n"

// noOutput replaces the empty output of a tool. Some models refuse a blank output, and Bedrock
// refuses an error without one.
const noOutput = "(no output)"

// messages converts a request's messages to turns with alternating roles. If cached, there is a
// cache point after the last turn when it is the user's.
func messages(req llm.Request, cached bool) []types.Message {
	c := conversation{asText: len(req.Tools) == 0, ids: ids(req.Messages)}
	for _, m := range req.Messages {
		c.add(m)
	}
	out := make([]types.Message, 0, len(c.turns))
	for _, t := range c.turns {
		out = append(out, types.Message{Role: t.role, Content: append(t.results, t.rest...)})
	}
	if last := len(out) - 1; cached && last >= 0 && out[last].Role == types.ConversationRoleUser {
		out[last].Content = append(out[last].Content, &types.ContentBlockMemberCachePoint{Value: cachePoint()})
	}
	return out
}

// conversation collects turns.
type conversation struct {
	asText bool              // calls and results are sent as text
	ids    map[string]string // of calls, in the form that Bedrock accepts
	turns  []turn
}

// turn is one message for Bedrock. Tool results come first in it.
type turn struct {
	role          types.ConversationRole
	results, rest []types.ContentBlock
}

func (c *conversation) add(m llm.Message) {
	switch m.Role {
	case llm.RoleAssistant:
		c.say(types.ConversationRoleAssistant, m.Text)
		for _, call := range m.Calls {
			c.call(call)
		}
	case llm.RoleTool:
		for _, r := range m.Results {
			c.result(r)
		}
	case llm.RoleSystem:
		if !blank(m.Text) {
			c.say(types.ConversationRoleUser, note+m.Text)
		}
	default:
		c.say(types.ConversationRoleUser, m.Text)
	}
}

// turn returns the turn that the next block of a role belongs to.
func (c *conversation) turn(role types.ConversationRole) *turn {
	if n := len(c.turns); n == 0 || c.turns[n-1].role != role {
		c.turns = append(c.turns, turn{role: role})
	}
	return &c.turns[len(c.turns)-1]
}

func (c *conversation) say(role types.ConversationRole, text string) {
	if blank(text) {
		return
	}
	t := c.turn(role)
	t.rest = append(t.rest, &types.ContentBlockMemberText{Value: text})
}

func (c *conversation) call(call llm.ToolCall) {
	if c.asText {
		c.say(types.ConversationRoleAssistant, fmt.Sprintf("[call of %s: %s]", call.Name, call.Arguments))
		return
	}
	t := c.turn(types.ConversationRoleAssistant)
	t.rest = append(t.rest, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
		ToolUseId: aws.String(c.ids[call.ID]), Name: aws.String(wire.ToolName(call.Name)), Input: inputDocument(call.Arguments),
	}})
}

func (c *conversation) result(r llm.ToolResult) {
	content, status := r.Content, types.ToolResultStatusSuccess
	if blank(content) {
		content = noOutput
	}
	if r.IsError {
		status = types.ToolResultStatusError
	}
	if c.asText {
		c.say(types.ConversationRoleUser, fmt.Sprintf("[result of %s, %s: %s]", r.Name, status, content))
		return
	}
	if !r.IsError {
		status = "" // success is the default, and some models refuse the field
	}
	t := c.turn(types.ConversationRoleUser)
	t.results = append(t.results, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
		ToolUseId: aws.String(c.ids[r.CallID]), Status: status,
		Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: content}},
	}})
}
