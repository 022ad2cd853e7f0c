package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// chunk is one event of a stream, or an answer that is not streamed.
type chunk struct {
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *piece `json:"delta"`
	Message      *piece `json:"message"`
	FinishReason string `json:"finish_reason"`
	Usage        *usage `json:"usage"` // Moonshot sends it here
}

type piece struct {
	Content   content     `json:"content"`
	Refusal   string      `json:"refusal"`
	ToolCalls []callPiece `json:"tool_calls"`
	extras
}

// answer collects an answer. It is a [wire.Receiver].
type answer struct {
	wire.Answer
	model   string
	calls   []*openCall
	chunks  int
	finish  string // empty: no finish reason yet
	refused bool
	visible visible
	usage   llm.Usage
	extras  gathered
	from    string // the provider and its host
	asked   string // the requested model
}

// Whole implements [wire.Receiver].
func (a *answer) Whole(body []byte) error {
	if err := a.take(body); err != nil {
		return err
	}
	if a.chunks == 0 {
		return errors.New("an answer without a choice")
	}
	return a.close()
}

// Event implements [wire.Receiver].
func (a *answer) Event(e wire.Event) (last bool, err error) {
	if string(e.Data) == "[DONE]" {
		if a.finish == "" { // some servers send [DONE] even after they failed
			return true, errors.New("the answer does not say why it ends")
		}
		return true, a.close()
	}
	return false, a.take(e.Data)
}

// End implements [wire.Receiver].
func (a *answer) End() error {
	if a.finish == "" {
		return errors.New("the stream was cut off")
	}
	return a.close()
}

func (a *answer) take(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || c.Object == "error" {
		return wire.ParseFailure(0, data)
	}
	a.model = cmp.Or(c.Model, a.model)
	a.spent(c.Usage)
	if len(c.Choices) == 0 { // a keepalive, or the usage
		a.Think()
	}
	for _, one := range c.Choices {
		if one.Index != 0 {
			continue // we ask for one choice
		}
		a.chunks++
		a.spent(one.Usage)
		if err := a.say(one); err != nil {
			return err
		}
		a.finish = cmp.Or(one.FinishReason, a.finish)
	}
	switch a.finish { // the server has ended the answer, and not the model: it is not whole
	case "error", // OpenRouter, if it gives no details
		"abort",                        // vLLM and SGLang, which end the stream as if it were complete
		"insufficient_system_resource": // DeepSeek
		return &wire.Failure{Message: "the answer ends by an error"}
	}
	return nil
}

func (a *answer) say(one choice) error {
	said, whole := one.Delta, false
	if said == nil { // Perplexity also sends a message with the whole text so far: the delta comes first
		said, whole = one.Message, true
	}
	if said == nil {
		return nil
	}
	a.refused = a.refused || said.Refusal != ""
	if len(said.ReasoningContent)+len(said.Reasoning)+len(said.ReasoningDetails) > 0 {
		a.visible.led = false // the server tells the thought beside the text
	}
	if a.visible.led {
		if err := a.Keep(len(said.Content)); err != nil {
			return err
		}
	}
	text := a.visible.next(string(said.Content)) + said.Refusal
	if text == "" && len(said.ToolCalls) == 0 {
		a.Think()
	}
	if err := a.Keep(said.size()); err != nil {
		return err
	}
	a.extras.add(said.extras)
	if err := a.AddText(text); err != nil {
		return err
	}
	a.withdrawThought(false)
	for i, c := range said.ToolCalls {
		if err := a.callPiece(c, i, len(said.ToolCalls), whole); err != nil {
			return err
		}
	}
	return nil
}

// withdrawThought takes what the model thinks out of the text that has been told, once its end says that it was no answer.
func (a *answer) withdrawThought(over bool) {
	if a.visible.phase != speaking || a.visible.lone {
		return
	}
	if text, found := a.visible.answerIn(a.Text(), over); found {
		a.Restate(text)
		if text != "" {
			a.visible.phase = speaking
		}
	}
}

func (a *answer) response() llm.Response {
	message := a.Message()
	message.Opaque = a.opaque(message)
	return llm.Response{Message: message, StopReason: a.stopReason(), Usage: a.usage, Model: a.model}
}

func (a *answer) stopReason() llm.StopReason {
	if a.refused {
		return llm.StopRefusal
	}
	finish, _, _ := strings.Cut(a.finish, ":") // Gemini adds details: "content_filter: PROHIBITED_CONTENT"
	switch finish {
	case "content_filter":
		return llm.StopRefusal
	case "function_call_filter": // Gemini could not read the model's call: it is asked again
		return llm.StopToolUse
	case "length", "model_length": // model_length is Mistral's
		return llm.StopMaxTokens
	case "stop", "tool_calls", "function_call", "":
		switch {
		case a.Calls() > 0:
			return llm.StopToolUse
		case a.finish == "stop" || a.finish == "":
			return llm.StopEndTurn
		case a.Message().Text == "": // it announces calls, and the server could not read them: it is asked again
			return llm.StopToolUse
		}
	}
	return llm.StopOther
}

// usage is the token usage. PromptTokens includes the cached tokens. The numbers are floats because
// some servers write them so.
type usage struct {
	PromptTokens     float64 `json:"prompt_tokens"`
	CompletionTokens float64 `json:"completion_tokens"`
	Details          struct {
		CachedTokens     float64 `json:"cached_tokens"`
		CacheWriteTokens float64 `json:"cache_write_tokens"` // OpenRouter
	} `json:"prompt_tokens_details"`
	CacheHitTokens float64 `json:"prompt_cache_hit_tokens"` // DeepSeek
}

// spent stores a usage unless it is empty. Each usage replaces the one before: it counts from the
// beginning of the answer.
func (a *answer) spent(u *usage) {
	if u == nil {
		return
	}
	read, written := tokens(max(u.Details.CachedTokens, u.CacheHitTokens)), tokens(u.Details.CacheWriteTokens)
	said := llm.Usage{
		PromptTokens:     max(tokens(u.PromptTokens)-read-written, 0),
		CompletionTokens: tokens(u.CompletionTokens),
		CacheReadTokens:  read, CacheWriteTokens: written,
	}
	if said != (llm.Usage{}) {
		a.usage = said
	}
}

func tokens(n float64) int { return int(min(max(n, 0), 1e9)) }

// content is a text. Servers write it as a string or as a list of parts.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, (*string)(c))
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "text" {
			*c += content(p.Text)
		}
	}
	return nil
}
