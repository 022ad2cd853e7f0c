// Package anthropic is Anthropic's Messages API as an [llm.Model].
//
// # What is told otherwise than it was
//
// Roles must alternate, and results stand first in their message: neighbours of one
// role become one message, and a note of the loop becomes part of the user's next to
// it. (Only the newest models take a system message in mid-conversation.) Blank
// texts are refused, so they are left out. A call's input must be an object:
// arguments that are none travel as {"_raw": "…"}. Names and ids of made-up tools
// and of other providers are replaced by ones that are taken. A conversation with
// calls needs tools, so one that offers none any more names those it has called, and
// forbids to.
//
// # The cache
//
// Anthropic keeps a prompt up to a mark, so that the next one that begins alike is
// cheaper: behind the tools, behind the system prompt, and, where a next request may
// go on from here, behind the last message.
//
// Thinking is not asked for; what a model thinks nevertheless is passed over.
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
	version = "2023-06-01" // of the API: the newest
)

// DefaultMaxTokens is the limit of an answer that the API wants and nobody has set.
const DefaultMaxTokens = 8192

// Options are what a [Model] is made of.
type Options struct {
	BaseURL   string       // with or without the version; empty: Anthropic
	APIKey    secret.Value // may be empty where a proxy adds it
	Model     string       // what is asked when a request names no model
	MaxTokens int          // of an answer, when a request sets no limit; 0: [DefaultMaxTokens]
	HTTP      wire.Doer    // nil: a client of its own over net/http's transport, without a time-out
}

// Model asks Anthropic's models. It is safe for concurrent use.
type Model struct {
	endpoint  *wire.Endpoint
	model     string
	maxTokens int
}

var _ llm.Model = (*Model)(nil)

// New makes a model. It does not touch the network. An error says which option is
// wrong, and repeats neither URL nor key.
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
