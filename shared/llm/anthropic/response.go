package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// event is an event of a stream.
type event struct {
	Type    string   `json:"type"`
	Message reply    `json:"message"` // message_start
	Index   int      `json:"index"`   // content_block_*
	Block   content  `json:"content_block"`
	Usage   *usage   `json:"usage"` // message_delta
	Delta   struct { // content_block_delta, message_delta
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
}

// reply is an answer that is not streamed, or the empty one at the beginning of a stream.
type reply struct {
	Type       string    `json:"type"`
	Model      string    `json:"model"`
	Content    []content `json:"content"`
	StopReason string    `json:"stop_reason"`
	Usage      *usage    `json:"usage"`
}

// content is a block of an answer: text, tool_use, or a type that is ignored.
type content struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// answer collects an answer. It is a [wire.Receiver].
type answer struct {
	wire.Answer
	model string
	open  map[int]*openCall // by the index of their block
	stop  string            // empty: no stop reason yet
	usage llm.Usage
}

// openCall is a call whose block has begun and not ended.
type openCall struct {
	at    int             // its index in the answer
	input json.RawMessage // the input at the start of the block
	grown bool            // pieces have arrived
}

// Whole implements [wire.Receiver].
func (a *answer) Whole(body []byte) error {
	var in reply
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch in.Type {
	case "error":
		return wire.ParseFailure(0, body)
	case "message":
	default:
		return errors.New("the answer is not a message")
	}
	return a.reply(in)
}

func (a *answer) reply(in reply) error {
	a.model, a.stop = cmp.Or(in.Model, a.model), in.StopReason
	a.spent(in.Usage)
	for i, b := range in.Content {
		if err := a.begin(i, b); err != nil {
			return err
		}
		if err := a.end(i); err != nil {
			return err
		}
	}
	return nil
}

// Event implements [wire.Receiver].
func (a *answer) Event(e wire.Event) (last bool, err error) {
	var in event
	if err := json.Unmarshal(e.Data, &in); err != nil {
		return false, fmt.Errorf("read an event: %w", err)
	}
	switch cmp.Or(in.Type, e.Type) {
	case "error":
		return false, wire.ParseFailure(0, e.Data)
	case "message_start":
		return false, a.reply(in.Message)
	case "content_block_start":
		return false, a.begin(in.Index, in.Block)
	case "content_block_delta":
		if c := a.open[in.Index]; c != nil && in.Delta.PartialJSON != "" {
			c.grown = true
			return false, a.Extend(c.at, in.Delta.PartialJSON)
		}
		if in.Delta.Type == "text_delta" {
			return false, a.AddText(in.Delta.Text)
		}
	case "content_block_stop":
		return false, a.end(in.Index)
	case "message_delta":
		a.stop = cmp.Or(in.Delta.StopReason, a.stop)
		a.spent(in.Usage)
	case "message_stop":
		if a.stop == "" {
			return true, errors.New("the answer does not say why it ends")
		}
		return true, a.endAll()
	}
	a.Think() // a ping, or a new type of event
	return false, nil
}

// End implements [wire.Receiver].
func (a *answer) End() error { return errors.New("the stream was cut off") }

func (a *answer) begin(index int, b content) error {
	if err := a.end(index); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		return a.AddText(b.Text)
	case "tool_use":
		at, err := a.Begin(b.ID, b.Name)
		if err != nil {
			return err
		}
		a.open[index] = &openCall{at: at, input: b.Input}
	}
	return nil
}

// end ends a block. If no piece of a call has arrived, its input is that of the start of the block.
func (a *answer) end(index int) error {
	c := a.open[index]
	delete(a.open, index)
	if c == nil || c.grown || string(c.input) == "null" {
		return nil
	}
	return a.Extend(c.at, string(c.input))
}

func (a *answer) endAll() error {
	for _, index := range slices.Sorted(maps.Keys(a.open)) {
		if err := a.end(index); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) response() llm.Response {
	return llm.Response{Message: a.Message(), StopReason: a.stopReason(), Usage: a.usage, Model: a.model}
}

func (a *answer) stopReason() llm.StopReason {
	switch a.stop {
	case "end_turn", "tool_use", "":
		switch {
		case a.Calls() > 0:
			return llm.StopToolUse
		case a.stop == "end_turn":
			return llm.StopEndTurn
		}
	case "max_tokens", "model_context_window_exceeded": // cut off in both cases
		return llm.StopMaxTokens
	case "stop_sequence":
		return llm.StopSequence
	case "refusal":
		return llm.StopRefusal
	}
	return llm.StopOther // includes pause_turn, which only occurs with tools that Anthropic runs; we use none
}

type usage struct {
	Input      int `json:"input_tokens"` // without cached tokens
	Output     int `json:"output_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
}

// spent stores a usage. A count that is sent again is the total so far, so the largest one counts.
func (a *answer) spent(u *usage) {
	if u == nil {
		return
	}
	a.usage = llm.Usage{
		PromptTokens:     max(a.usage.PromptTokens, u.Input),
		CompletionTokens: max(a.usage.CompletionTokens, u.Output),
		CacheReadTokens:  max(a.usage.CacheReadTokens, u.CacheRead),
		CacheWriteTokens: max(a.usage.CacheWriteTokens, u.CacheWrite),
	}
}
