package app

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Circuit returns the name of the circuits for the configured provider, address and key. It depends
// on the key, so that a failure with one key does not block another key.
func (c Config) Circuit() string {
	sum := sha256.Sum256([]byte(c.LLMProvider + "\x00" + c.OpenAIBaseURL + "\x00" + c.OpenAIAPIKey +
		"\x00" + c.AnthropicAPIKey + "\x00" + c.AWSRegion))
	return c.LLMProvider + ":" + hex.EncodeToString(sum[:4])
}

// Models returns the model ids of LLM_MODEL. The first one is preferred; the others are fallbacks.
func (c Config) Models() []string {
	ids := strings.Split(c.LLMModel, ",")
	for i := range ids {
		ids[i] = strings.TrimSpace(ids[i])
	}
	return ids
}

// Window returns the size of the model's context window in tokens, derived from the model's name.
// For an unknown name it returns 32,000, which every current model supports.
func (c Config) Window() int {
	name := strings.ToLower(c.Models()[0])
	for _, w := range windows {
		if strings.Contains(name, w.name) {
			return w.tokens
		}
	}
	return 32_000
}

// windows lists the context windows of model families, as their vendors publish them.
var windows = []struct {
	name   string
	tokens int
}{
	{"claude", 200_000}, {"gpt-4.1", 1_000_000}, {"gpt-5", 400_000}, {"gpt-4o", 128_000}, {"o3", 200_000}, {"o4", 200_000},
	{"nova-pro", 300_000}, {"nova-lite", 300_000}, {"nova-micro", 128_000}, {"gemini", 1_000_000},
	{"llama3.1", 128_000}, {"llama-3", 128_000}, {"llama3", 128_000}, {"mistral-large", 128_000}, {"qwen3", 128_000}, {"deepseek", 64_000},
}
