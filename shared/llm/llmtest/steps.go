package llmtest

import (
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// usage is what every predefined step reports.
var usage = llm.Usage{PromptTokens: 10, CompletionTokens: 5}

// Say returns a step that ends the turn with a text.
func Say(text string) Step {
	return func(llm.Request) (llm.Response, error) {
		return llm.Response{
			Message:    llm.Message{Role: llm.RoleAssistant, Text: text},
			StopReason: llm.StopEndTurn,
			Usage:      usage,
			Model:      "script",
		}, nil
	}
}

// Call returns a step that calls tools: name, arguments, name, arguments, and so on. The ids of its
// calls are unique in the conversation.
func Call(namesAndArguments ...string) Step {
	return func(req llm.Request) (llm.Response, error) {
		var calls []llm.ToolCall
		for i := 0; i+1 < len(namesAndArguments); i += 2 {
			calls = append(calls, llm.ToolCall{
				ID:        fmt.Sprintf("call_%d_%d", len(req.Messages), i/2+1),
				Name:      namesAndArguments[i],
				Arguments: llm.Arguments(namesAndArguments[i+1]),
			})
		}
		return llm.Response{
			Message:    llm.Message{Role: llm.RoleAssistant, Calls: calls},
			StopReason: llm.StopToolUse,
			Usage:      usage,
			Model:      "script",
		}, nil
	}
}

// Fail returns a step that fails with err, usually an *llm.Error.
func Fail(err error) Step {
	return func(llm.Request) (llm.Response, error) { return llm.Response{}, err }
}
