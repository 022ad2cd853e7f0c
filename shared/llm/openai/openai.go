// Package openai implements [llm.Model] for every provider with OpenAI's Chat Completions API:
// OpenAI itself, vLLM, Ollama, LiteLLM, OpenRouter and others.
//
// # Differences between providers
//
// OpenAI and its newer models take the limit of an answer as max_completion_tokens, others as
// max_tokens. Some take no stream_options, some templates of models take a system message at the
// beginning only, and some take nothing back of what a model thought. A server that refuses one of these
// is asked again in the other form, and from then on so for that model. Usage comes in the last event, in
// every event, or not at all. The pieces of calls are identified by index, by id, or by position, or a
// call comes whole. Several calls may share an index or an id, or have none. This package separates them
// and gives each call a unique id.
//
// # What is sent in another form
//
// Arguments that are not a JSON object are sent as {"_raw": "…"}, because vLLM and llama.cpp refuse
// a conversation that contains a broken call. Tool names that a model invented are replaced with
// valid ones. The protocol can't mark a tool result as an error: the content of such a result
// begins with "Error: ".
//
// Mistral's models take call ids of nine letters and digits only, and only the assistant after a
// result. Mistral itself refuses stream_options, and sends the usage unasked.
//
// # What is kept and sent back
//
// Servers of thinking models refuse a conversation that lacks what they sent with a call:
// reasoning_content, reasoning, reasoning_details, extra_content (Gemini's thought signatures).
// This package keeps it as [llm.Opaque] and returns it only to the same host and model.
//
// # What is no part of the answer
//
// Some servers leave what a model thinks within its text, between <think> and </think> at the
// beginning, or <reasoning> and </reasoning>. This package takes it out.
//
// The template of some models begins the thought, so that only its end comes. Their text is withheld until then, unless the
// server tells the thought apart. They are known by their names, or by an answer that has such an end: what was passed on of
// that answer is void.
//
// # When an answer is complete
//
// A stream is complete when it gives a finish reason and then [DONE], or a finish reason and then ends:
// some servers send neither the usage nor [DONE]. Any other stream that ends, and one that breaks off, has failed.
package openai

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Name is the provider's name.
const Name = "openai"

const (
	ownHost = "api.openai.com"
	ownBase = "https://" + ownHost + "/v1"
)

// azures matches the hosts of Azure that take a key in the header api-key.
var azures = pattern.New(`(?i)\.(?:openai|cognitiveservices|services\.ai)\.azure\.(?:com|us|cn)$`)

// Options configure a [Model].
type Options struct {
	BaseURL string       // with the version, such as http://localhost:11434/v1; empty: OpenAI
	APIKey  secret.Value // may be empty if the provider needs none
	Model   string       // used when a request names no model
	HTTP    wire.Doer    // nil: an own client over net/http's default transport, without a timeout
}

// Model calls the models of one provider. It is safe for concurrent use.
type Model struct {
	endpoint *wire.Endpoint
	model    string
	own      bool      // the provider is OpenAI
	short    bool      // it takes short call ids only
	mistral  bool      // the provider is Mistral
	from     string    // provider and host, because several servers use this protocol; only their opaque data is sent back
	learned  *sync.Map // by the name of a model: its dialect, if a refusal has taught it
}

var _ llm.Model = (*Model)(nil)

// New returns a model. It does not use the network. An error says which option is wrong. It
// contains neither the URL nor the key.
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
	header, prefix, azure := "Authorization", "Bearer ", azures().MatchString(base.Hostname())
	if azure {
		header, prefix = "Api-Key", ""
	}
	endpoint, err := wire.NewEndpoint(wire.Config{
		Provider: Name, URL: base.JoinPath("chat", "completions"), HTTP: o.HTTP, Header: http.Header{},
		Key: o.APIKey, KeyHeader: header, KeyPrefix: prefix,
	})
	if err != nil {
		return nil, err
	}
	mistral := base.Hostname() == "mistral.ai" || strings.HasSuffix(base.Hostname(), ".mistral.ai")
	return &Model{endpoint, o.Model, own, own || azure, mistral, Name + " " + base.Host, &sync.Map{}}, nil
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
	known := m.dialectOf(req.Model)
	d := known
	body, err := m.encode(req, d, onDelta != nil)
	for err == nil {
		a := answer{Answer: wire.NewAnswer(req, onDelta), model: req.Model, from: m.from, asked: req.Model}
		a.visible.led = d.thinks
		failed := m.endpoint.Ask(ctx, body, onDelta != nil, &a)
		if failed == nil {
			d.thinks = a.visible.lone || d.thinks && !a.visible.unled || thinkers().MatchString(req.Model)
			if d != known {
				m.learned.Store(req.Model, d)
			}
			return a.response(), nil
		}
		before := body
		d = d.after(failed)
		body, err = m.encode(req, d, onDelta != nil)
		if bytes.Equal(body, before) || a.chunks > 0 {
			return llm.Response{}, failed
		}
	}
	return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: Name, Err: err}
}
