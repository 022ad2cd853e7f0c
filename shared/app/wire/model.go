package wire

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/anthropic"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/observe"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/surface/worker"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// newModels returns the model chain of each workspace. A call is retried and then falls back to the
// next model of LLM_MODEL that no kill switch stops. A circuit breaker stops calls to a failing
// model for a while.
func newModels(core *app.Core, circuits *resilient.Store, stopped func(context.Context, db.Workspace, ...string) (string, error),
	closed func(*db.Batch)) (func(db.Workspace) llm.Model, error) {
	model, err := NewModel(core.Config, core.AWS)
	if err != nil {
		return nil, fmt.Errorf("LLM_PROVIDER %s: %w", core.Config.LLMProvider, err)
	}
	cfg := resilient.Config{
		Stopped: stopped, Closed: closed, Observe: counted(core.Meters, core.Log),
		Log: core.Log, Clock: core.Clock, Rand: rand.Float64,
	}
	if core.Config.LLMProvider != demo.Name { // which cannot be down
		cfg.Circuits = circuits
	}
	for _, id := range core.Config.Models() {
		cfg.Providers = append(cfg.Providers, resilient.Provider{Model: model, ID: id, Circuit: core.Config.Circuit()})
	}
	chain, err := resilient.New(cfg)
	if err != nil {
		return nil, err
	}
	return func(ws db.Workspace) llm.Model { return chain.For(ws) }, nil
}

// goesOn adds to a batch that turns and tasks which wait for a model are tried at once: each waits for longer after
// each try.
func (s *Surfaces) goesOn(b *db.Batch) {
	s.Outbox.AllDueNow(b, turn.Topic)
	s.Outbox.AllDueNow(b, worker.Topic)
}

// counted returns a function that counts each model call and logs its outcome: at level info after
// an error, a retry or a fallback, else at level debug.
func counted(meters *observe.Meters, log *slog.Logger) func(context.Context, resilient.Call) {
	return func(ctx context.Context, c resilient.Call) {
		meters.Model(observe.ModelCall{
			Provider: c.Provider, Model: c.Model, Class: string(c.Class), Took: c.Took,
			Input: c.Usage.PromptTokens, Output: c.Usage.CompletionTokens,
			CacheRead: c.Usage.CacheReadTokens, CacheWrite: c.Usage.CacheWriteTokens,
		})
		level := slog.LevelDebug
		if c.Fallback || c.Err != nil || c.Tries > 1 {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, "model asked", "provider", c.Provider, "model", c.Model, "fallback", c.Fallback, "class", c.Class,
			"tries", c.Tries, "tokens", c.Usage.TotalTokens(), "duration_ms", c.Took.Milliseconds())
	}
}

// NewModel returns the configured provider without retries and fallbacks. It is called by
// lanekeeper doctor.
func NewModel(cfg app.Config, aws func(context.Context) (aws.Config, error)) (llm.Model, error) {
	first := cfg.Models()[0]
	switch cfg.LLMProvider {
	case bedrock.Name:
		return bedrock.New(bedrock.Config{Model: first, AWS: aws}), nil
	case anthropic.Name:
		return anthropic.New(anthropic.Options{APIKey: secret.NewValue(cfg.AnthropicAPIKey), Model: first})
	case openai.Name:
		return openai.New(openai.Options{BaseURL: cfg.OpenAIBaseURL, APIKey: secret.NewValue(cfg.OpenAIAPIKey), Model: first})
	}
	return demo.New(), nil
}
