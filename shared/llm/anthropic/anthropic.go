// Package anthropic implements [llm.Model] with Anthropic's Messages API.
//
// # What is sent in another form
//
// Roles must alternate, and tool results must come first in their message. So neighboring messages
// of one role become one message, and a note of the agent's loop becomes part of the user's message
// next to it. (Only the newest models accept a system message in the middle of a conversation.)
// Blank texts are refused, so they are omitted. A call's input must be an object: other arguments
// are sent as {"_raw": "…"}. Tool names that a model invented, and ids of other providers, are
// replaced with valid ones. A conversation with calls needs tools. If a request offers none, it
// lists the tools that were called and forbids calls. A temperature above 1, which only other
// providers take, is sent as 1.
//
// # The cache
//
// Anthropic caches a prompt up to a mark, so that a later prompt with the same beginning is
// cheaper. There is a mark after the tools, after the system prompt, and after the last message if
// a later request may continue from there.
//
// This package does not request thinking, and ignores it in answers.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Name is the provider's name.
const Name = "anthropic"

const (
	ownHost = "api.anthropic.com"
	ownBase = "https://" + ownHost
	version = "2023-06-01" // the newest version of the API
)

// DefaultMaxTokens is the default limit of an answer. The API requires a limit.
const DefaultMaxTokens = 8192

// Options configure a [Model].
type Options struct {
	BaseURL   string       // with or without the version; empty: Anthropic
	APIKey    secret.Value // may be empty if a proxy adds it
	Model     string       // used when a request names no model
	MaxTokens int          // limit of an answer when a request sets none; 0: [DefaultMaxTokens]
	HTTP      wire.Doer    // nil: an own client over net/http's default transport, without a timeout
}

// Model calls Anthropic's models. It is safe for concurrent use.
type Model struct {
	endpoint  *wire.Endpoint
	model     string
	maxTokens int
}

var _ llm.Model = (*Model)(nil)

// New returns a model. It does not use the network. An error says which option is wrong. It
// contains neither the URL nor the key.
func New(o Options) (*Model, error) {
	base, err := wire.ParseURL(strings.TrimSuffix(strings.TrimRight(cmp.Or(o.BaseURL, ownBase), "/"), "/v1"))
	switch {
	case err != nil:
		return nil, err
	case o.Model == "":
		return nil, errors.New("no model is set")
	case base.Hostname() == ownHost && o.APIKey.Reveal() == "":
		return nil, errors.New("no API key is set")
	}
	endpoint, err := wire.NewEndpoint(wire.Config{
		Provider: Name, URL: base.JoinPath("v1", "messages"), HTTP: o.HTTP,
		Header: http.Header{"Anthropic-Version": {version}}, Key: o.APIKey, KeyHeader: "X-Api-Key",
	})
	if err != nil {
		return nil, err
	}
	return &Model{endpoint, o.Model, cmp.Or(max(o.MaxTokens, 0), DefaultMaxTokens)}, nil
}

// Name implements [llm.Model].
func (m *Model) Name() string { return Name }

// Generate implements [llm.Model].
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, Name); err != nil {
		return llm.Response{}, err
	}
	req.Model = cmp.Or(req.Model, m.model)
	req.MaxTokens = cmp.Or(max(req.MaxTokens, 0), m.maxTokens)
	body, err := encode(req, onDelta != nil)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: Name, Err: err}
	}
	a := answer{Answer: wire.NewAnswer(req, onDelta), model: req.Model, open: map[int]*openCall{}}
	if err := m.endpoint.Ask(ctx, body, onDelta != nil, &a); err != nil {
		return llm.Response{}, err
	}
	return a.response(), nil
}
