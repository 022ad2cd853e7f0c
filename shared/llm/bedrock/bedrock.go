// Package bedrock implements [llm.Model] with the Converse API of Amazon Bedrock.
//
// # What is sent in another form
//
// Roles must alternate, and Bedrock has no system messages in the middle of a conversation. So
// neighboring messages of one role become one message, and a note of the agent's loop becomes part
// of the user's message next to it, after the tool results. Blank texts are refused, so they are
// omitted. A call's input must be a JSON object: other arguments are sent as {"_raw": "…"}, so that
// the model sees what it wrote. Names and ids that Bedrock would refuse are replaced with valid
// ones: tool names that a model invented, and ids of other providers. Bedrock refuses calls in a
// request without tools; then they are sent as text. A temperature above 1, which only other
// providers take, is sent as 1. If a model refuses to stream, the whole answer is requested instead.
//
// # Failures
//
// Generate does not retry, and the SDK's own retries are off. An answer that is cut off before its
// usage arrives counts as failed, even if it was streamed, because its cost is unknown.
package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Name is the provider's name.
const Name = "bedrock"

// Config configures a [Model].
type Config struct {
	// Model is the id of the model or inference profile to use when a request names none.
	Model string
	// AWS returns the region, the credentials and the rest of the SDK's configuration. It is called
	// for the first request, and again while it fails.
	AWS func(context.Context) (aws.Config, error)
	// Client is used instead of a client made from AWS.
	Client *bedrockruntime.Client
	// Cache says which prompts Bedrock caches.
	Cache Cache
}

// Model calls models on Bedrock. It is safe for concurrent use.
type Model struct {
	cfg    Config
	mu     sync.Mutex
	client *bedrockruntime.Client // nil until the first request
}

var _ llm.Model = (*Model)(nil)

// New returns a model. It does not use the network.
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
		ask := func() { resp, err = converse(ctx, client, in, callsOf(req.Messages)) }
		if onDelta == nil {
			ask()
		} else if await(ask, onDelta); err == nil {
			deliver(resp, onDelta)
		}
	}
	if err != nil {
		return llm.Response{}, failure(ctx, err)
	}
	resp.Model = cmp.Or(resp.Model, *in.ModelId)
	return resp, nil
}

// unstreamed reports whether the error says that the model can't stream. Some models can stream,
// but not with tools.
func unstreamed(err error) bool {
	e, ok := errors.AsType[*types.ValidationException](err)
	return ok && strings.Contains(e.ErrorMessage(), "streaming")
}

// await runs ask and meanwhile passes on that the model is working: of a whole answer nothing arrives before its
// end, so only ctx limits how long that takes.
func await(ask func(), onDelta func(llm.Delta)) {
	const every = 30 * time.Second
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask()
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			onDelta(llm.Delta{})
		}
	}
}

// deliver passes on an answer that was not streamed.
func deliver(resp llm.Response, onDelta func(llm.Delta)) {
	onDelta(llm.Delta{Text: resp.Text})
	for i, c := range resp.Calls {
		onDelta(llm.Delta{Call: &llm.CallDelta{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments}})
	}
}

// connect returns the client, and creates it at the first use.
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

// eachCall sets the options of a call, also for a client from [Config].
func eachCall(o *bedrockruntime.Options) {
	o.Retryer = aws.NopRetryer{}
	o.HTTPClient = bounded{o.HTTPClient}
	if o.Credentials != nil {
		o.Credentials = credentials{o.Credentials}
	}
}
