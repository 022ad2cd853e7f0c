package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A Setting is a variable in the output of `lanekeeper config`.
type Setting struct {
	Variable string `json:"variable"`
	Value    string `json:"value"`
	Set      bool   `json:"set"` // by the environment; otherwise Value is the default
}

// Redacted lists the effective settings in the order of the documentation. A secret is shown as
// "set" or "not set", and a URL without its password.
func (c Config) Redacted() []Setting {
	demo := "1 on a new file"
	switch {
	case c.Demo != nil:
		demo = map[bool]string{true: "1", false: "0"}[*c.Demo]
	case c.OnPostgres():
		demo = "0"
	}
	all := []Setting{
		{Variable: "ADDR", Value: c.Addr},
		{Variable: "STATE_BACKEND", Value: string(c.StateBackend)},
		{Variable: "SQLITE_PATH", Value: c.SQLitePath},
		{Variable: "DATABASE_URL", Value: withoutPassword(c.DatabaseURL)},
		{Variable: "DATABASE_SECRET_ARN", Value: c.DatabaseSecretARN},
		{Variable: "REDIS_URL", Value: withoutPassword(c.RedisURL)},
		{Variable: "LLM_PROVIDER", Value: c.LLMProvider},
		{Variable: "LLM_MODEL", Value: c.LLMModel},
		{Variable: "OPENAI_BASE_URL", Value: withoutPassword(c.OpenAIBaseURL)},
		{Variable: "OPENAI_API_KEY", Value: hidden(c.OpenAIAPIKey)},
		{Variable: "OPENAI_API_KEY_SECRET_ARN", Value: c.OpenAIAPIKeySecretARN},
		{Variable: "ANTHROPIC_API_KEY", Value: hidden(c.AnthropicAPIKey)},
		{Variable: "ANTHROPIC_API_KEY_SECRET_ARN", Value: c.AnthropicAPIKeySecretARN},
		{Variable: "AWS_REGION", Value: c.AWSRegion},
		{Variable: "ADMIN_TOKEN", Value: hidden(c.AdminToken)},
		{Variable: "ADMIN_TOKEN_SECRET_ARN", Value: c.AdminTokenSecretARN},
		{Variable: "JWT_SECRET", Value: hidden(c.JWTSecret)},
		{Variable: "JWT_SECRET_SECRET_ARN", Value: c.JWTSecretSecretARN},
		{Variable: "JWT_ISSUER", Value: c.JWTIssuer},
		{Variable: "JWT_AUDIENCE", Value: c.JWTAudience},
		{Variable: "JWT_MAX_LIFE", Value: short(c.JWTMaxLife)},
		{Variable: "JWKS_URL", Value: withoutPassword(c.JWKSURL)},
		{Variable: "SECRET_KEY_FILE", Value: c.SecretKeyFile},
		{Variable: "KMS_KEY_ID", Value: c.KMSKeyID},
		{Variable: "EMAIL_FROM", Value: c.EmailFrom},
		{Variable: "GATEWAY_URL", Value: withoutPassword(c.GatewayURL)},
		{Variable: "GATEWAY_TOKEN", Value: hidden(c.GatewayToken)},
		{Variable: "GATEWAY_TOKEN_SECRET_ARN", Value: c.GatewayTokenSecretARN},
		{Variable: "TEND_FUNCTION", Value: c.TendFunction},
		{Variable: "WORKER_FUNCTION", Value: c.WorkerFunction},
		{Variable: "HEARTBEAT_EVERY", Value: short(c.HeartbeatEvery)},
		{Variable: "COORDINATOR_EVERY", Value: short(c.CoordinatorEvery)},
		{Variable: "DEMO", Value: demo},
		{Variable: "ALLOW_PRIVATE_HOSTS", Value: strings.Join(c.AllowPrivateHosts, ",")},
		{Variable: "ALLOWED_HOSTS", Value: strings.Join(c.AllowedHosts, ",")},
		{Variable: "LOG_LEVEL", Value: strings.ToLower(c.LogLevel.String())},
		{Variable: "OTEL_EXPORTER_OTLP_ENDPOINT", Value: withoutPassword(c.SpansURL)},
		{Variable: "OTEL_EXPORTER_OTLP_HEADERS", Value: hidden(c.SpansHeaders)},
		{Variable: "OTEL_EXPORTER_OTLP_HEADERS_SECRET_ARN", Value: c.SpansHeadersSecretARN},
		{Variable: "OTEL_SERVICE_NAME", Value: c.service()},
	}
	for i := range all {
		all[i].Set = c.set[all[i].Variable]
	}
	return all
}

// Notes lists variables that are set but have no effect. The local runner prints it.
func (c Config) Notes() []string {
	var notes []string
	if c.StateBackend == db.SQLite {
		if c.set["DATABASE_URL"] {
			notes = append(notes, "DATABASE_URL is set and not used: STATE_BACKEND is sqlite. Leave STATE_BACKEND out to use that database.")
		}
		if c.set["DATABASE_SECRET_ARN"] {
			notes = append(notes, "DATABASE_SECRET_ARN is set and not used: functions on Lambda alone read it. Set DATABASE_URL "+
				"to use that database.")
		}
	}
	if !c.OnLambda() {
		for _, v := range c.secretVariables() {
			if *v.arn != "" {
				notes = append(notes, v.arnName()+" is set and not used: functions on Lambda alone read it. Set "+v.name+" here.")
			}
		}
	}
	for name, provider := range map[string]string{"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "OPENAI_BASE_URL": "openai"} {
		if !c.set[name] || c.LLMProvider == provider {
			continue
		}
		note := name + " is set and not used: the provider is " + c.LLMProvider + "."
		if c.offered == provider {
			note += " LLM_PROVIDER=" + provider + " has the agent ask that one, which may cost money."
		}
		notes = append(notes, note)
	}
	if !c.given(c.JWTSecret, c.JWTSecretSecretARN) && c.JWKSURL == "" {
		for _, name := range []string{"JWT_ISSUER", "JWT_AUDIENCE"} {
			if c.set[name] {
				notes = append(notes, name+" is set and not used: there is neither JWT_SECRET nor JWKS_URL.")
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME"} {
		if c.set[name] && c.SpansURL == "" {
			notes = append(notes, name+" is set and not used: there is no OTEL_EXPORTER_OTLP_ENDPOINT.")
		}
	}
	slices.Sort(notes)
	return notes
}

// String lists the settings without their secrets.
func (c Config) String() string {
	var b strings.Builder
	for _, s := range c.Redacted() {
		fmt.Fprintf(&b, "%s=%s\n", s.Variable, s.Value)
	}
	return b.String()
}

// Format implements fmt.Formatter, so that no verb shows a secret.
func (c Config) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// MarshalJSON implements json.Marshaler.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.Redacted()) }

// LogValue implements slog.LogValuer.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range c.Redacted() {
		attrs = append(attrs, slog.String(s.Variable, s.Value))
	}
	return slog.GroupValue(attrs...)
}

func hidden(secret string) string {
	if secret == "" {
		return "not set"
	}
	return "set"
}

// short formats a duration without its zero parts: 30m, not 30m0s.
func short(d time.Duration) string {
	s := d.String()
	if d != 0 && d%time.Minute == 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d != 0 && d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// withoutPassword returns a URL without its password, its parameters, and a user name that may be a
// token.
func withoutPassword(s string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return "set" // not a URL, for example a list of key=value pairs
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if _, password := u.User.Password(); password || strings.HasPrefix(u.Scheme, "postgres") {
		if name := u.User.Username(); name != "" {
			shown.User = url.User(name)
		}
	}
	return shown.String()
}
