package app_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	tokenARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:token-Ab12Cd"
	keysARN  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:keys-Ab12Cd"

	tokenSecret = "ADMIN_TOKEN_SECRET_ARN=" + tokenARN
	keySecret   = "ANTHROPIC_API_KEY_SECRET_ARN=" + keysARN
	signingKey  = "JWT_SECRET_SECRET_ARN=" + keysARN
)

// On Lambda, a variable that names a secret counts as a given value. Elsewhere the secret is not
// read, and a note says so.
func TestASecretThatIsNamedIsGiven(t *testing.T) {
	c := load(t, aws, pgURL, keySecret, signingKey, tokenSecret)
	if c.LLMProvider != "anthropic" || c.LLMModel != "claude-sonnet-4-5" {
		t.Errorf("the provider is %s, the model %s", c.LLMProvider, c.LLMModel)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].Variable != "JWT_AUDIENCE" {
		t.Errorf("warnings %v", w)
	}
	refs := c.SecretRefs()
	if len(refs) != 2 || refs[0].ARN != keysARN || strings.Join(refs[0].Variables, " ") != "ANTHROPIC_API_KEY_SECRET_ARN JWT_SECRET_SECRET_ARN" ||
		refs[1].ARN != tokenARN {
		t.Errorf("the secrets are %v", refs)
	}
	local := load(t, keySecret, tokenSecret)
	notes := strings.Join(local.Notes(), "\n")
	if local.LLMProvider != "demo" ||
		!strings.Contains(notes, "ADMIN_TOKEN_SECRET_ARN is set and not used: functions on Lambda alone read it. Set ADMIN_TOKEN here.") {
		t.Errorf("the provider is %s, notes %s", local.LLMProvider, notes)
	}
	_, err := app.LoadConfig([]string{"LLM_PROVIDER=anthropic", keySecret})
	if err == nil || !strings.Contains(err.Error(), "(ANTHROPIC_API_KEY_SECRET_ARN is for functions on Lambda.)") {
		t.Errorf("not on Lambda: %v", err)
	}
}

func TestSecretsByARN(t *testing.T) {
	const token, key, signing = "canary-token-0123456789", "canary-key-0123456789", "canary-signing-key-0123456789-0123456789"
	var log strings.Builder
	c := load(t, aws, pgURL, tokenSecret, keySecret, signingKey)
	logger := app.NewLogger(&log, c, nil)
	held, err := c.WithSecrets(map[string]string{tokenARN: token + "\n", keysARN: `{"ANTHROPIC_API_KEY":"` + key + `","JWT_SECRET":"` + signing + `"}`})
	if err != nil || held.AdminToken != token || held.AnthropicAPIKey != key || held.JWTSecret != signing {
		t.Fatalf("the secrets hold something else: %v", err)
	}
	logger.Info("so it is", "of", token, "more", key+"/"+signing)
	if strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "so it is") {
		t.Errorf("the logger of before says %s", &log)
	}
	if strings.Contains(held.String(), "canary") {
		t.Errorf("the configuration shows %s", held)
	}

	for name, c := range map[string]struct{ token, keys, variable, what string }{
		"an empty one":      {"", `{"ANTHROPIC_API_KEY":"canary","JWT_SECRET":"` + signing + `"}`, "ADMIN_TOKEN_SECRET_ARN", tokenARN},
		"one too short":     {"canary", `{"ANTHROPIC_API_KEY":"canary","JWT_SECRET":"` + signing + `"}`, "ADMIN_TOKEN_SECRET_ARN", "too short"},
		"one with a space":  {"canary canary canary", `{"ANTHROPIC_API_KEY":"canary","JWT_SECRET":"` + signing + `"}`, "ADMIN_TOKEN_SECRET_ARN", "characters"},
		"another key":       {token, `{"key":"canary","JWT_SECRET":"` + signing + `"}`, "ANTHROPIC_API_KEY_SECRET_ARN", "ANTHROPIC_API_KEY is missing"},
		"no text":           {token, `{"ANTHROPIC_API_KEY":["canary"],"JWT_SECRET":"` + signing + `"}`, "ANTHROPIC_API_KEY_SECRET_ARN", keysARN},
		"a short JWT key":   {token, `{"ANTHROPIC_API_KEY":"canary","JWT_SECRET":"canary"}`, "JWT_SECRET_SECRET_ARN", keysARN},
		"several variables": {token, `canary-of-several-0123456789-0123456789 `, "", ""},
	} {
		_, err := load(t, aws, pgURL, tokenSecret, keySecret, signingKey).WithSecrets(map[string]string{tokenARN: c.token, keysARN: c.keys})
		if c.variable == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		bad, ok := errors.AsType[*problem.ConfigError](err)
		if !ok || len(bad.Problems) != 1 || bad.Problems[0].Variable != c.variable || !strings.Contains(bad.Problems[0].What, c.what) ||
			bad.Problems[0].Do == "" || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
