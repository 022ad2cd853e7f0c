package bedrock

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// converse requests an answer without a stream.
func converse(ctx context.Context, client *bedrockruntime.Client, in *bedrockruntime.ConverseInput, ids unique) (llm.Response, error) {
	out, err := client.Converse(ctx, in, eachCall)
	if err != nil {
		return llm.Response{}, err
	}
	message, ok := out.Output.(*types.ConverseOutputMemberMessage)
	if !ok || out.StopReason == "" || out.Usage == nil {
		return llm.Response{}, errIncomplete
	}
	if out.StopReason == types.StopReasonMalformedModelOutput {
		return llm.Response{}, errMalformed
	}
	resp := llm.Response{
		Message:    llm.Message{Role: llm.RoleAssistant},
		StopReason: stopReason(out.StopReason),
		Usage:      usage(out.Usage),
	}
	if out.Trace != nil {
		resp.Model = routed(out.Trace.PromptRouter)
	}
	var text strings.Builder
	for _, block := range message.Value.Content {
		switch b := block.(type) {
		case *types.ContentBlockMemberText:
			text.WriteString(b.Value)
		case *types.ContentBlockMemberToolUse:
			arguments, err := argumentsOf(b.Value.Input)
			if err != nil {
				return llm.Response{}, err
			}
			resp.Calls = append(resp.Calls, llm.ToolCall{
				ID: ids.id(aws.ToString(b.Value.ToolUseId)), Name: aws.ToString(b.Value.Name), Arguments: arguments,
			})
		}
	}
	resp.Text = text.String()
	return resp, nil
}

// errIncomplete is the error of an answer without its message, its stop reason or its usage.
var errIncomplete = errors.New("the answer is incomplete")

// errMalformed is the error of an answer that Bedrock could not read.
var errMalformed = errors.New("the model's answer is malformed")

// routed returns the model that a prompt router chose.
func routed(t *types.PromptRouterTrace) string {
	if t == nil {
		return ""
	}
	return aws.ToString(t.InvokedModelId)
}

// usage converts Bedrock's usage. Its input tokens exclude cached ones, as ours do.
func usage(u *types.TokenUsage) llm.Usage {
	return llm.Usage{
		PromptTokens:     int(aws.ToInt32(u.InputTokens)),
		CompletionTokens: int(aws.ToInt32(u.OutputTokens)),
		CacheReadTokens:  int(aws.ToInt32(u.CacheReadInputTokens)),
		CacheWriteTokens: int(aws.ToInt32(u.CacheWriteInputTokens)),
	}
}

func stopReason(r types.StopReason) llm.StopReason {
	switch r {
	case types.StopReasonEndTurn:
		return llm.StopEndTurn
	case types.StopReasonToolUse,
		types.StopReasonMalformedToolUse: // Bedrock could not read the model's call: it is asked again
		return llm.StopToolUse
	case types.StopReasonMaxTokens, types.StopReasonModelContextWindowExceeded: // cut off in both cases
		return llm.StopMaxTokens
	case types.StopReasonStopSequence:
		return llm.StopSequence
	case types.StopReasonGuardrailIntervened, types.StopReasonContentFiltered:
		return llm.StopRefusal
	}
	return llm.StopOther
}
