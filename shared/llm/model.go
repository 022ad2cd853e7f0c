// Package llm defines language models for Lanekeeper: one request, one response, one small
// interface. The packages below it (bedrock, anthropic, openai, demo) implement it. Their types are
// not used outside of them.
package llm

import (
	"context"
	"encoding/json"
)

// Model answers requests. Implementations are safe for concurrent use and keep no state between
// calls: the request holds everything that the model should remember.
type Model interface {
	// Generate asks for one answer and waits until it is complete. It does not retry.
	//
	// If onDelta is not nil, the answer is streamed. Generate calls onDelta in order, from the
	// calling goroutine, before it returns. The deltas add up to the response's text and calls. The
	// response is complete in both cases. An empty delta only says that the model is working. A
	// delta with Restart voids all deltas before it; the models of providers send one only where they
	// learn late that what they passed on is no part of the answer. If
	// Generate fails before the end, all deltas are void; the response may then hold Lost.
	//
	// An error is an *Error. A refusal in the answer itself is not an error but the stop reason
	// StopRefusal. Generate neither changes nor keeps the request.
	Generate(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)

	// Name is the provider's name as configured: bedrock, anthropic, openai, demo.
	Name() string
}

// Request is everything that a model gets.
type Request struct {
	Model    string    `json:"model,omitempty"` // the provider's id of a model; empty: its default
	System   string    `json:"system,omitempty"`
	Messages []Message `json:"messages"`
	Tools    []Tool    `json:"tools,omitempty"`

	MaxTokens   int      `json:"max_tokens,omitempty"`  // limit of the answer; 0: the provider's default
	Temperature *float64 `json:"temperature,omitempty"` // nil: the provider's default
}

// Tool is a skill as the model sees it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of an object
}

// Response is a model's answer: the assistant's message, why it ended, and the tokens it used.
type Response struct {
	Message
	StopReason StopReason `json:"stop_reason"`
	Usage      Usage      `json:"usage"`
	Model      string     `json:"model"` // the model that answered, as the provider names it

	// Lost estimates what interrupted attempts used, before this answer or instead of it. Usage
	// does not include it.
	Lost Usage `json:"lost,omitzero"`
}

// Used is the usage of the answer and of the interrupted attempts together.
func (r Response) Used() Usage { return r.Usage.Plus(r.Lost) }

// StopReason says why an answer ended.
type StopReason string

// The reasons why an answer ends. Any other reason of a provider is StopOther.
const (
	StopEndTurn   StopReason = "end_turn"      // the model was finished
	StopToolUse   StopReason = "tool_use"      // it waits for the results of its calls
	StopMaxTokens StopReason = "max_tokens"    // it was cut off; its last call may be broken
	StopSequence  StopReason = "stop_sequence" // it wrote a stop sequence
	StopRefusal   StopReason = "refusal"       // the model, or a filter in front of it, declined
	StopOther     StopReason = "other"
)

// Usage counts the tokens of one call or of several calls together. The four counts are disjoint,
// because their prices differ: PromptTokens are only those that were neither read from nor written
// to the provider's cache.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CacheReadTokens  int `json:"cache_read_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`

	// MicroUSD is the cost in millionths of a dollar, as far as it is known. No provider reports
	// it: the code that settles the call sets it.
	MicroUSD int64 `json:"cost_micro_usd,omitempty"`

	// Estimated says that the provider did not report all counts. The missing ones are estimates.
	Estimated bool `json:"estimated,omitempty"`
}

// USD is the cost in dollars.
func (u Usage) USD() float64 { return float64(u.MicroUSD) / 1e6 }

// TotalTokens is the sum of the four counts.
func (u Usage) TotalTokens() int {
	return u.PromptTokens + u.CompletionTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// Plus returns the sum of both usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		PromptTokens:     u.PromptTokens + v.PromptTokens,
		CompletionTokens: u.CompletionTokens + v.CompletionTokens,
		CacheReadTokens:  u.CacheReadTokens + v.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		MicroUSD:         u.MicroUSD + v.MicroUSD,
		Estimated:        u.Estimated || v.Estimated,
	}
}

// Delta is one piece of a streamed answer: text, or a piece of a call, or both.
type Delta struct {
	// Restart says that all pieces before this one are void: the answer starts again.
	Restart bool `json:"restart,omitempty"`

	Text string     `json:"text,omitempty"`
	Call *CallDelta `json:"call,omitempty"`
}

// CallDelta is one piece of the Index-th call of the answer. The first piece holds the id and the
// name. The pieces' arguments are concatenated.
type CallDelta struct {
	Index     int       `json:"index"`
	ID        string    `json:"id,omitempty"`
	Name      string    `json:"name,omitempty"`
	Arguments Arguments `json:"arguments,omitempty"`
}
