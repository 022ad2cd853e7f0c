// Package llm is what Lanekeeper knows of language models: one request, one
// response, one small interface. The packages below it (bedrock, anthropic,
// openai, demo) implement it; none of their types is seen outside of them.
package llm

import (
	"context"
	"encoding/json"
)

// Model answers requests. Implementations are safe for concurrent use and keep
// nothing between calls: what a model should remember is in the request.
type Model interface {
	// Generate asks for one answer and waits for all of it. It does not retry.
	//
	// When onDelta is not nil the answer is streamed: onDelta is called in
	// order, from the calling goroutine, before Generate returns, and what it
	// gets adds up to the response's text and calls. The response is complete
	// either way. An empty delta says only that the model is at work. One that says
	// Restart voids those before it; a provider's own model gives none. When Generate
	// fails half-way, what was streamed is void; the response may say what was Lost.
	//
	// An error is an *Error; a refusal in the answer itself is no error but
	// the stop reason StopRefusal. The request is not changed or kept.
	Generate(ctx context.Context, req Request, onDelta func(Delta)) (Response, error)

	// Name is the provider's name as configured: bedrock, anthropic, openai, demo.
	Name() string
}

// Request is everything a model is told.
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

// Response is a model's answer: the assistant's message, why it ended, and
// what it cost.
type Response struct {
	Message
	StopReason StopReason `json:"stop_reason"`
	Usage      Usage      `json:"usage"`
	Model      string     `json:"model"` // which model answered, as the provider names it

	// Lost is about what tries used that broke off, before this answer or instead of one.
	// It is no part of Usage.
	Lost Usage `json:"lost,omitzero"`
}

// Used is what the answer and the tries that broke off used together.
func (r Response) Used() Usage { return r.Usage.Plus(r.Lost) }

// StopReason says why an answer ended.
type StopReason string

// The reasons why an answer ends. What a provider says beyond them is StopOther.
const (
	StopEndTurn   StopReason = "end_turn"      // the model was done
	StopToolUse   StopReason = "tool_use"      // it waits for the results of its calls
	StopMaxTokens StopReason = "max_tokens"    // it was cut off; its last call may be broken
	StopSequence  StopReason = "stop_sequence" // it wrote a stop sequence
	StopRefusal   StopReason = "refusal"       // it, or a filter in front of it, declined
	StopOther     StopReason = "other"
)

// Usage counts the tokens of one call or, added up, of many. Their four counts
// are disjoint, as their prices are: PromptTokens are those neither read from
// nor written to the provider's cache.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CacheReadTokens  int `json:"cache_read_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"`

	// MicroUSD is what it cost, in millionths of a dollar, as far as that is known. No
	// provider says so: who settles the call does.
	MicroUSD int64 `json:"cost_micro_usd,omitempty"`

	// Estimated says that the provider did not report all of the counts, and that what it
	// left out is about what it was.
	Estimated bool `json:"estimated,omitempty"`
}

// USD is the cost in dollars.
func (u Usage) USD() float64 { return float64(u.MicroUSD) / 1e6 }

// TotalTokens is the sum of the four counts.
func (u Usage) TotalTokens() int {
	return u.PromptTokens + u.CompletionTokens + u.CacheReadTokens + u.CacheWriteTokens
}

// Plus returns the usage of both together.
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

// Delta is a piece of an answer that is being streamed: some text, or a piece
// of a call, or both.
type Delta struct {
	// Restart says that all pieces so far are void: the answer begins anew.
	Restart bool `json:"restart,omitempty"`

	Text string     `json:"text,omitempty"`
	Call *CallDelta `json:"call,omitempty"`
}

// CallDelta is a piece of the Index-th call of the answer. Its first piece
// bears the id and the name; the arguments of all its pieces are joined.
type CallDelta struct {
	Index     int       `json:"index"`
	ID        string    `json:"id,omitempty"`
	Name      string    `json:"name,omitempty"`
	Arguments Arguments `json:"arguments,omitempty"`
}
