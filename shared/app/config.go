package app

import (
	"cmp"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// Config is what the environment tells a process. Nothing else reads it, but for
// the AWS SDK and pgx, which look for standard variables of their own (AWS_*,
// PG*). Printed or logged as a whole it shows no secret.
type Config struct {
	Addr              string        `env:"ADDR" envDefault:"127.0.0.1:8080"`
	StateBackend      db.Dialect    `env:"STATE_BACKEND"` // Postgres on Lambda and with DATABASE_URL, else SQLite
	SQLitePath        string        `env:"SQLITE_PATH" envDefault:".lanekeeper/lanekeeper.db"`
	DatabaseURL       string        `env:"DATABASE_URL"`
	DatabaseSecretARN string        `env:"DATABASE_SECRET_ARN"`
	RedisURL          string        `env:"REDIS_URL"`
	LLMProvider       string        `env:"LLM_PROVIDER"` // empty: the demo, on Lambda what the rest suggests
	LLMModel          string        `env:"LLM_MODEL"`
	OpenAIBaseURL     string        `env:"OPENAI_BASE_URL"`
	OpenAIAPIKey      string        `env:"OPENAI_API_KEY"`
	AnthropicAPIKey   string        `env:"ANTHROPIC_API_KEY"`
	AWSRegion         string        `env:"AWS_REGION"`
	AdminToken        string        `env:"ADMIN_TOKEN"` // empty: the local runner makes one
	JWTSecret         string        `env:"JWT_SECRET"`
	JWTIssuer         string        `env:"JWT_ISSUER"`
	JWTAudience       string        `env:"JWT_AUDIENCE"`
	JWTMaxLife        time.Duration `env:"JWT_MAX_LIFE" envDefault:"720h"`
	JWKSURL           string        `env:"JWKS_URL"`
	SecretKeyFile     string        `env:"SECRET_KEY_FILE" envDefault:".lanekeeper/key"`
	KMSKeyID          string        `env:"KMS_KEY_ID"`
	EmailFrom         string        `env:"EMAIL_FROM"`
	TendFunction      string        `env:"TEND_FUNCTION"`
	HeartbeatEvery    time.Duration `env:"HEARTBEAT_EVERY" envDefault:"30m"`
	CoordinatorEvery  time.Duration `env:"COORDINATOR_EVERY" envDefault:"30s"`
	Demo              *bool         `env:"DEMO"` // nil: where the database is new and SQLite
	AllowPrivateHosts []string      `env:"ALLOW_PRIVATE_HOSTS"`
	AllowedHosts      []string      `env:"ALLOWED_HOSTS"` // as a Host header names them, without a port
	LogLevel          slog.Level    `env:"LOG_LEVEL" envDefault:"info"`

	// Secrets in Secrets Manager that hold these values; see [Config.WithSecrets].
	OpenAIAPIKeySecretARN    string `env:"OPENAI_API_KEY_SECRET_ARN"`
	AnthropicAPIKeySecretARN string `env:"ANTHROPIC_API_KEY_SECRET_ARN"`
	AdminTokenSecretARN      string `env:"ADMIN_TOKEN_SECRET_ARN"`
	JWTSecretSecretARN       string `env:"JWT_SECRET_SECRET_ARN"`

	// What Lambda says about itself.
	Function  string `env:"AWS_LAMBDA_FUNCTION_NAME"`
	LogStream string `env:"AWS_LAMBDA_LOG_STREAM_NAME"`

	set      map[string]bool  // the variables that came from the environment
	offered  string           // the provider that a key suggests, and nobody has chosen
	redactor *redact.Redactor // of all copies: what one of them has learnt, the loggers of all know
}

// OnLambda reports whether the process is a Lambda function.
func (c Config) OnLambda() bool { return c.Function != "" }

// OnPostgres reports whether the state is in Postgres.
func (c Config) OnPostgres() bool { return c.StateBackend == db.Postgres }

// LoadConfig reads an environment as os.Environ has it. A variable that is empty
// counts as not set. Whatever is wrong is reported at once, by a [*problem.ConfigError].
// It is called once in a process, by package edge or a verb of the local runner.
func LoadConfig(environ []string) (Config, error) {
	c := Config{set: map[string]bool{}, redactor: redact.New(nil)}
	values := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); value != "" {
			values[name] = value
			c.set[name] = true
		}
	}
	k := checker{Config: &c}
	k.unreadable(env.ParseWithOptions(&c, env.Options{Environment: values}))
	if c.StateBackend == "" {
		c.StateBackend = db.SQLite
		if c.OnLambda() || c.DatabaseURL != "" {
			c.StateBackend = db.Postgres
		}
	}
	if c.LLMProvider == "" {
		c.LLMProvider = c.suggested()
		if !c.OnLambda() && c.LLMProvider != "demo" { // it costs money: a person decides
			c.offered, c.LLMProvider = c.LLMProvider, "demo"
		}
	}
	if c.LLMModel == "" && c.OpenAIBaseURL == "" {
		c.LLMModel = usual[c.LLMProvider]
	}
	for _, hosts := range [][]string{c.AllowPrivateHosts, c.AllowedHosts} {
		for i, host := range hosts {
			hosts[i] = strings.ToLower(strings.TrimSpace(host))
		}
	}
	k.check()
	if len(k.problems) > 0 {
		return c, &problem.ConfigError{Problems: k.inOrder()}
	}
	return c, nil
}

// usual are the models that are asked where none is named.
var usual = map[string]string{"anthropic": "claude-sonnet-4-5", "openai": "gpt-4.1-mini"}

// Offered is the provider whose key or address is in the environment of the local runner
// while LLM_PROVIDER is not, and the model it would be asked for; empty where there is none.
// It is not asked unless LLM_PROVIDER names it, since that costs money.
func (c Config) Offered() (provider, model string) {
	if c.offered == "" {
		return "", ""
	}
	return c.offered, cmp.Or(c.LLMModel, usual[c.offered])
}

// suggested is the provider that a key in the environment belongs to; on Lambda,
// where a model is named, Bedrock, which needs none; else the demo.
func (c Config) suggested() string {
	switch {
	case c.given(c.AnthropicAPIKey, c.AnthropicAPIKeySecretARN):
		return "anthropic"
	case c.given(c.OpenAIAPIKey, c.OpenAIAPIKeySecretARN) || c.OpenAIBaseURL != "":
		return "openai"
	case c.OnLambda() && c.LLMModel != "":
		return "bedrock"
	}
	return "demo"
}

// variables are the names of all variables, in the order of the struct.
func variables() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := f.Tag.Get("env"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// unreadable turns what could not be parsed into problems, whose text never
// repeats a value.
func (k *checker) unreadable(err error) {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return
	}
	for _, err := range all.Errors {
		bad, ok := errors.AsType[env.ParseError](err)
		if !ok {
			k.bad("", "the environment can't be read", "Report this.") // a mistake in the tags of Config
			continue
		}
		field, _ := reflect.TypeFor[Config]().FieldByName(bad.Name)
		name := field.Tag.Get("env")
		switch bad.Type {
		case reflect.TypeFor[time.Duration]():
			k.bad(name, "is not a duration", "Write it with a unit, such as 30m or 90s.")
		case reflect.TypeFor[*bool]():
			k.bad(name, "is neither 1 nor 0", "Set it to 1 or 0, or leave it out.")
		case reflect.TypeFor[slog.Level]():
			k.bad(name, badLevel, levels)
		default:
			k.bad(name, "can't be read", "Correct it, or leave it out.")
		}
	}
}

// inOrder sorts the problems as the variables stand in Config.
func (k *checker) inOrder() []problem.ConfigProblem {
	order := variables()
	slices.SortStableFunc(k.problems, func(a, b problem.ConfigProblem) int {
		return slices.Index(order, a.Variable) - slices.Index(order, b.Variable)
	})
	return k.problems
}
