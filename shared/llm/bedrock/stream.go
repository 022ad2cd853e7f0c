package bedrock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// stream requests a streamed answer.
func stream(ctx context.Context, client *bedrockruntime.Client, in *bedrockruntime.ConverseInput, ids unique, onDelta func(llm.Delta)) (llm.Response, error) {
	out, err := client.ConverseStream(ctx, streamed(in), eachCall)
	if err != nil {
		return llm.Response{}, err
	}
	events := out.GetStream()
	defer events.Close()
	a := answer{onDelta: onDelta, ids: ids, calls: map[int32]*call{}}
	for {
		select {
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		case event, more := <-events.Events():
			if !more {
				return a.end(events.Err())
			}
			if err := errors.Join(a.take(event), ctx.Err()); err != nil { // onDelta may have canceled ctx
				return llm.Response{}, err
			}
		}
	}
}

// answer collects the events of a stream.
type answer struct {
	onDelta func(llm.Delta)
	ids     unique
	text    strings.Builder
	calls   map[int32]*call // by the index of their block
	order   []*call
	stop    types.StopReason // empty: not stopped yet
	usage   *types.TokenUsage
	model   string
}

type call struct {
	index     int // among the calls
	id, name  string
	arguments strings.Builder
}

func (a *answer) take(event types.ConverseStreamOutput) error {
	switch e := event.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		if start, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			return a.begin(aws.ToInt32(e.Value.ContentBlockIndex), start.Value)
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		return a.grow(aws.ToInt32(e.Value.ContentBlockIndex), e.Value.Delta)
	case *types.ConverseStreamOutputMemberMessageStop:
		a.stop = e.Value.StopReason
	case *types.ConverseStreamOutputMemberMetadata:
		a.usage = e.Value.Usage
		if e.Value.Trace != nil {
			a.model = routed(e.Value.Trace.PromptRouter)
		}
	}
	return nil
}

func (a *answer) begin(block int32, start types.ToolUseBlockStart) error {
	if a.calls[block] != nil {
		return fmt.Errorf("block %d of the answer begins twice", block)
	}
	c := &call{index: len(a.order), id: a.ids.id(aws.ToString(start.ToolUseId)), name: aws.ToString(start.Name)}
	a.calls[block], a.order = c, append(a.order, c)
	a.onDelta(llm.Delta{Call: &llm.CallDelta{Index: c.index, ID: c.id, Name: c.name}})
	return nil
}

func (a *answer) grow(block int32, delta types.ContentBlockDelta) error {
	switch d := delta.(type) {
	case *types.ContentBlockDeltaMemberText:
		if d.Value != "" {
			a.text.WriteString(d.Value)
			a.onDelta(llm.Delta{Text: d.Value})
		}
	case *types.ContentBlockDeltaMemberToolUse:
		c := a.calls[block]
		if c == nil {
			return fmt.Errorf("block %d of the answer goes on and has not begun", block)
		}
		if piece := aws.ToString(d.Value.Input); piece != "" {
			c.arguments.WriteString(piece)
			a.onDelta(llm.Delta{Call: &llm.CallDelta{Index: c.index, Arguments: llm.Arguments(piece)}})
		}
	default: // thinking
		a.onDelta(llm.Delta{})
	}
	return nil
}

// end returns the answer if all of it has arrived. The SDK reports a broken connection, even within
// an event, as the end of the stream.
func (a *answer) end(err error) (llm.Response, error) {
	if a.stop == "" || a.usage == nil {
		if err == nil {
			err = errors.New("the stream ended too early")
		}
		return llm.Response{}, err
	}
	if a.stop == types.StopReasonMalformedModelOutput {
		return llm.Response{}, errMalformed
	}
	resp := llm.Response{
		Message:    llm.Message{Role: llm.RoleAssistant, Text: a.text.String()},
		StopReason: stopReason(a.stop),
		Usage:      usage(a.usage),
		Model:      a.model,
	}
	for _, c := range a.order {
		resp.Calls = append(resp.Calls, llm.ToolCall{ID: c.id, Name: c.name, Arguments: llm.Arguments(c.arguments.String())})
	}
	return resp, nil
}
