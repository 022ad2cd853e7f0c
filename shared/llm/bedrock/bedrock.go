// Package bedrock is Amazon Bedrock as an [llm.Model], by its Converse API.
//
// # What Bedrock is stricter about
//
// Roles must alternate, and Bedrock knows no system message in mid-conversation:
// neighbours of one role become one message, a note of the loop becomes part of
// the user's next to it, and tool results stand first in it. Blank texts are
// refused, so they are left out. A call's input must be a JSON object: arguments
// that are none travel as {"_raw": "…"}, so that the model sees what it wrote. Names
// and ids that Bedrock would refuse, of made-up tools and of other providers, are
// replaced by ones it takes. Calls without any tool on offer are refused; there
// they are told as text. A model that refuses to stream is asked for the whole.
//
// # Failures
//
// Generate does not retry: the SDK's own retries are off. An answer that is cut off
// before its usage has come is a failed one, whatever was streamed: nobody could
// say what it has cost.
package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/schemas"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go/transport/http/protocol/restjson1"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Name is the provider's name.
const Name = "bedrock"

// Config is what a [Model] is made of.
type Config struct {
	// Model is the id of the model or inference profile that is asked when a request
	// names none.
	Model string
	// AWS gives region, credentials and the rest of the SDK's configuration. It is
	// called when the first request comes, and again as long as it fails.
	AWS func(context.Context) (aws.Config, error)
	// Client is used instead of one made from AWS.
	Client *bedrockruntime.Client
	// Cache says which prompts Bedrock is to cache.
	Cache Cache
}

// Model asks models on Bedrock. It is safe for concurrent use.
type Model struct {
	cfg    Config
	mu     sync.Mutex
	client *bedrockruntime.Client // nil until it is needed
}

var _ llm.Model = (*Model)(nil)

// New makes a model. It does not touch the network.
func New(cfg Config) *Model { return &Model{cfg: cfg, client: cfg.Client} }

// Name implements [llm.Model].
func (m *Model) Name() string { return Name }

// Generate implements [llm.Model].
func (m *Model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	if err := llm.Interrupted(ctx, Name); err != nil {
		return llm.Response{}, err
	}
	in, err := m.input(req)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: llm.ClassBadRequest, Provider: Name, Err: err}
	}
	client, err := m.connect(ctx)
	if err != nil {
		return llm.Response{}, failure(ctx, &setupError{err})
	}
	var resp llm.Response
	if onDelta != nil {
		resp, err = stream(ctx, client, in, callsOf(req.Messages), onDelta)
	}
	if onDelta == nil || unstreamed(err) {
		resp, err = converse(ctx, client, in, callsOf(req.Messages))
		if onDelta != nil && err == nil {
			deliver(resp, onDelta)
		}
	}
	if err != nil {
		return llm.Response{}, failure(ctx, err)
	}
	resp.Model = cmp.Or(resp.Model, *in.ModelId)
	return resp, nil
}

// unstreamed reports whether the model does not stream, or not where there are tools,
// as some don't that answer in one piece.
func unstreamed(err error) bool {
	e, ok := errors.AsType[*types.ValidationException](err)
	return ok && strings.Contains(e.ErrorMessage(), "streaming")
}

// deliver passes an answer on that has come in one piece.
func deliver(resp llm.Response, onDelta func(llm.Delta)) {
	onDelta(llm.Delta{Text: resp.Text})
	for i, c := range resp.Calls {
		onDelta(llm.Delta{Call: &llm.CallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
}

// connect is the client, made when first needed.
func (m *Model) connect(ctx context.Context) (*bedrockruntime.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		return m.client, nil
	}
	if m.cfg.AWS == nil {
		return nil, errors.New("no AWS configuration")
	}
	cfg, err := m.cfg.AWS(ctx)
	if err != nil {
		return nil, fmt.Errorf("configure the AWS SDK: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS region is set")
	}
	m.client = bedrockruntime.NewFromConfig(cfg)
	return m.client, nil
}

// eachCall are the options of a call, also with a client that was handed in.
func eachCall(o *bedrockruntime.Options) {
	o.Retryer = aws.NopRetryer{}
	o.HTTPClient = bounded{o.HTTPClient}
	if o.Credentials != nil {
		o.Credentials = credentials{o.Credentials}
	}
	// The client's own has one decoder of event streams for all calls, which they
	// would use at the same time.
	o.Protocol = restjson1.New(schemas.AmazonBedrockFrontendService)
}
