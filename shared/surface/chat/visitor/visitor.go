// Package visitor defines the kind of conversation that visitors have with an agent. It imports neither
// HTTP nor keys, so that functions that only continue such conversations start fast.
package visitor

import (
	_ "embed"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed visitor.md
var prompt string

// Channel is the channel of the threads of visitors. The address of such a thread is the visitor.
const Channel = "chat"

// Kind is the kind of conversation that visitors have with an agent. Each visitor has a lane. What
// they say is untrusted.
func Kind() turn.Kind {
	return turn.Kind{
		Surface:      trace.Chat,
		Name:         "chat",
		Agent:        "visitor_chat",
		Channel:      Channel,
		Prompt:       prompt,
		Persona:      persona.VisitorChat,
		Trust:        execution.Untrusted,
		Describe:     Describe,
		LocksThread:  true,
		Guarded:      true,
		AnswerTokens: func(s workspace.Settings) int { return s.ChatOutputTokens },
		ThreadTokens: func(s workspace.Settings) int64 { return s.ChatTokens },
		Multitask:    []turn.Multitask{turn.Enqueue, turn.Reject, turn.Interrupt, turn.Rollback, turn.Collect, turn.Steer},
	}
}

// Describe returns the text about the state of a turn that a visitor sees: the agent's answer, or a
// fixed sentence, which contains nothing internal.
func Describe(r turn.Reply) string {
	switch r.Status {
	case execution.Completed:
		return r.Answer
	case execution.Waiting:
		if r.Answer != "" {
			return r.Answer
		}
		return "A person has to look at this first. The answer comes into this conversation."
	case execution.Running, execution.Parked:
		return "This takes longer than usual. The answer comes into this conversation."
	case execution.Cancelled:
		return "This message was stopped before it was answered."
	case execution.Failed, execution.Stalled:
	}
	return "Sorry, this could not be answered. Please try again later, or in other words."
}
