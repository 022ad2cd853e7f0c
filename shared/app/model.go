package app

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Circuit names the circuits of a provider with this key and address: what another
// key did must not keep this one out.
func (c Config) Circuit() string {
	sum := sha256.Sum256([]byte(c.LLMProvider + "\x00" + c.OpenAIBaseURL + "\x00" + c.OpenAIAPIKey + "\x00" + c.AnthropicAPIKey + "\x00" + c.AWSRegion))
	return c.LLMProvider + ":" + hex.EncodeToString(sum[:4])
}

// Models are the ids of LLM_MODEL, the first choice first; the others stand in for
// it.
func (c Config) Models() []string {
	ids := strings.Split(c.LLMModel, ",")
	for i := range ids {
		ids[i] = strings.TrimSpace(ids[i])
	}
	return ids
}

// Window is how many tokens a model takes in all, going by its name; the least of
// what those of today take where the name says nothing.
func (c Config) Window() int {
	name := strings.ToLower(c.Models()[0])
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
