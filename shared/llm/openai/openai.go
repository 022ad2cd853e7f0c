// Package openai is every provider that speaks OpenAI's Chat Completions as an
// [llm.Model]: OpenAI itself, vLLM, Ollama, LiteLLM, OpenRouter and others.
//
// # What they differ in
//
// The limit of an answer is max_completion_tokens for OpenAI and its newer models,
// max_tokens elsewhere. Usage comes in the last event, in every one, or not at all.
// The pieces of calls come by index, by id, by place, or whole; calls share an index
// or an id, or have none: they are told apart, and each gets an id of its own.
//
// # What is told otherwise than it was
//
// Arguments that are no JSON object travel as {"_raw": "…"}, for vLLM and llama.cpp
// refuse a conversation that has a broken call in it. Names of made-up tools are
// replaced by ones that are taken. The protocol has no mark for the error of a tool:
// the content of such a result begins with "Error: ".
//
// # What is kept and sent back
//
// Servers of models that think refuse a conversation that lacks what they gave beside
// a call: reasoning_content, reasoning, reasoning_details, extra_content (thought
// signatures of Gemini's). It is kept as [llm.Opaque] and goes back to the same host
// and model alone.
//
// # When an answer is complete
//
// A stream is complete when it has said why it ends and then [DONE]; or has said why
// and what it has cost, and ends. Whatever else ends early has failed.
package openai

import (
	"context"
	"errors"
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Name is the provider's name.
const Name = "openai"

const (
	ownHost = "api.openai.com"
	ownBase = "https://" + ownHost + "/v1"
)

// Options are what a [Model] is made of.
type Options struct {
	BaseURL string       // with the version, such as http://localhost:11434/v1; empty: OpenAI
	APIKey  secret.Value // may be empty where the provider wants none
	Model   string       // what is asked when a request names no model
	HTTP    wire.Doer    // nil: a client of its own over net/http's transport, without a time-out
}

// Model asks models of one provider. It is safe for concurrent use.
type Model struct {
	endpoint *wire.Endpoint
	model    string
	own      bool   // the provider is OpenAI
	from     string // whose opaque data it reads: several servers speak this protocol
}

var _ llm.Model = (*Model)(nil)

// New makes a model. It does not touch the network. An error says which option is
// wrong, and repeats neither URL nor key.
func New(o Options) (*Model, error) {
	if o.BaseURL == "" {
		o.BaseURL = ownBase
	}
	base, err := wire.ParseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	own := base.Hostname() == ownHost
	switch {
	case o.Model == "":
		return nil, errors.New("no model is set")
	case own && o.APIKey.Reveal() == "":
		return nil, errors.New("no API key is set")
	}
	endpoint, err := wire.NewEndpoint(wire.Config{
		Provider: Name, URL: base.JoinPath("chat", "completions"), HTTP: o.HTTP, Header: http.Header{},
		Key: o.APIKey, KeyHeader: "Authorization", KeyPrefix: "Bearer ",
	})
	if err != nil {
		return nil, err
	}
	return &Model{endpoint, o.Model, own, Name + " " + base.Host}, nil
}

// Name implements [llm.Model].
func (m *Model) Name() string { return Name }

// Generate implements [llm.Model].
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, Name); err != nil {
		return llm.Response{}, err
	}
	if req.Model == "" {
		req.Model = m.model
	}
	body, err := m.encode(req, onDelta != nil)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: Name, Err: err}
	}
	a := answer{Answer: wire.NewAnswer(req, onDelta), model: req.Model, from: m.from, asked: req.Model}
	if err := m.endpoint.Ask(ctx, body, onDelta != nil, &a); err != nil {
		return llm.Response{}, err
	}
	return a.response(), nil
}
