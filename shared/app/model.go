package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/anthropic"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/resilient"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// newModels gives each workspace the configured model: it is tried again, gives
// way to the next of LLM_MODEL that nobody has switched off, and is left alone for a
// while after it has failed.
func newModels(core *Core, circuits *resilient.Store, stopped func(context.Context, db.Workspace, ...string) (string, error)) (func(db.Workspace) llm.Model, error) {
	model, err := NewModel(core.Config, core.AWS)
	if err != nil {
		return nil, fmt.Errorf("LLM_PROVIDER %s: %w", core.Config.LLMProvider, err)
	}
	if core.Config.LLMProvider == demo.Name {
		return func(db.Workspace) llm.Model { return model }, nil
	}
	cfg := resilient.Config{
		Circuits: circuits, Stopped: stopped, Observe: observe(core.Log),
		Log: core.Log, Clock: core.Clock, Rand: rand.Float64,
	}
	for _, id := range core.Config.models() {
		cfg.Providers = append(cfg.Providers, resilient.Provider{Model: model, ID: id, Circuit: core.Config.circuit()})
	}
	chain, err := resilient.New(cfg)
	if err != nil {
		return nil, err
	}
	return func(ws db.Workspace) llm.Model { return chain.For(ws) }, nil
}

// observe logs what became of each model that was asked: at the level debug, unless
// there is something to look into.
func observe(log *slog.Logger) func(context.Context, resilient.Call) {
	return func(ctx context.Context, c resilient.Call) {
		level := slog.LevelDebug
		if c.Fallback || c.Err != nil || c.Tries > 1 {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, "model asked", "provider", c.Provider, "model", c.Model, "fallback", c.Fallback, "class", c.Class,
			"tries", c.Tries, "tokens", c.Usage.TotalTokens(), "duration_ms", c.Took.Milliseconds())
	}
}

// NewModel is the configured provider, bare: it is asked once and no other stands in
// for it. It is called by lanekeeper doctor.
func NewModel(cfg Config, aws func(context.Context) (aws.Config, error)) (llm.Model, error) {
	first := cfg.models()[0]
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

// circuit names the circuits of a provider with this key and address: what another
// key did must not keep this one out.
func (c Config) circuit() string {
	sum := sha256.Sum256([]byte(c.LLMProvider + "\x00" + c.OpenAIBaseURL + "\x00" + c.OpenAIAPIKey + "\x00" + c.AnthropicAPIKey + "\x00" + c.AWSRegion))
	return c.LLMProvider + ":" + hex.EncodeToString(sum[:4])
}

// models are the ids of LLM_MODEL, the first choice first; the others stand in for
// it.
func (c Config) models() []string {
	ids := strings.Split(c.LLMModel, ",")
	for i := range ids {
		ids[i] = strings.TrimSpace(ids[i])
	}
	return ids
}

// window is how many tokens a model takes in all, going by its name; the least of
// what those of today take where the name says nothing.
func (c Config) window() int {
	name := strings.ToLower(c.models()[0])
	for _, w := range windows {
		if strings.Contains(name, w.name) {
			return w.tokens
		}
	}
	return 32_000
}

// windows are the context windows of families of models, as their makers publish
// them.
var windows = []struct {
	name   string
	tokens int
}{
	{"claude", 200_000}, {"gpt-4.1", 1_000_000}, {"gpt-5", 400_000}, {"gpt-4o", 128_000}, {"o3", 200_000}, {"o4", 200_000},
	{"nova-pro", 300_000}, {"nova-lite", 300_000}, {"nova-micro", 128_000}, {"gemini", 1_000_000},
	{"llama3.1", 128_000}, {"llama-3", 128_000}, {"llama3", 128_000}, {"mistral-large", 128_000}, {"qwen3", 128_000}, {"deepseek", 64_000},
}
