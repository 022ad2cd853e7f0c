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

// Config is the configuration of a process, read from the environment. Only this package reads the
// environment, except the AWS SDK and pgx, which read standard variables (AWS_*, PG*). The printed
// or logged form of a Config shows no secret.
type Config struct {
	Addr              string        `env:"ADDR" envDefault:"127.0.0.1:8080"`
	StateBackend      db.Dialect    `env:"STATE_BACKEND"` // Postgres on Lambda or with DATABASE_URL, else SQLite
	SQLitePath        string        `env:"SQLITE_PATH" envDefault:".lanekeeper/lanekeeper.db"`
	DatabaseURL       string        `env:"DATABASE_URL"`
	DatabaseSecretARN string        `env:"DATABASE_SECRET_ARN"`
	RedisURL          string        `env:"REDIS_URL"`
	LLMProvider       string        `env:"LLM_PROVIDER"` // empty: demo; on Lambda derived from the other variables
	LLMModel          string        `env:"LLM_MODEL"`
	OpenAIBaseURL     string        `env:"OPENAI_BASE_URL"`
	OpenAIAPIKey      string        `env:"OPENAI_API_KEY"`
	AnthropicAPIKey   string        `env:"ANTHROPIC_API_KEY"`
	AWSRegion         string        `env:"AWS_REGION"`
	AdminToken        string        `env:"ADMIN_TOKEN"` // empty: the local runner generates one
	JWTSecret         string        `env:"JWT_SECRET"`
	JWTIssuer         string        `env:"JWT_ISSUER"`
	JWTAudience       string        `env:"JWT_AUDIENCE"`
	JWTMaxLife        time.Duration `env:"JWT_MAX_LIFE" envDefault:"720h"`
	JWKSURL           string        `env:"JWKS_URL"`
	SecretKeyFile     string        `env:"SECRET_KEY_FILE" envDefault:".lanekeeper/key"`
	KMSKeyID          string        `env:"KMS_KEY_ID"`
	EmailFrom         string        `env:"EMAIL_FROM"`
	GatewayURL        string        `env:"GATEWAY_URL"` // starts agents whose spawner is http; empty: there is none
	GatewayToken      string        `env:"GATEWAY_TOKEN"`
	TendFunction      string        `env:"TEND_FUNCTION"`
	WorkerFunction    string        `env:"WORKER_FUNCTION"` // does the tasks of built-in agents
	HeartbeatEvery    time.Duration `env:"HEARTBEAT_EVERY" envDefault:"30m"`
	CoordinatorEvery  time.Duration `env:"COORDINATOR_EVERY" envDefault:"30s"`
	Demo              *bool         `env:"DEMO"` // nil: only in a new SQLite database
	AllowPrivateHosts []string      `env:"ALLOW_PRIVATE_HOSTS"`
	AllowedHosts      []string      `env:"ALLOWED_HOSTS"` // as in a Host header, without a port
	LogLevel          slog.Level    `env:"LOG_LEVEL" envDefault:"info"`
	SpansURL          string        `env:"OTEL_EXPORTER_OTLP_ENDPOINT"` // empty: no spans are exported
	SpansHeaders      string        `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	SpansService      string        `env:"OTEL_SERVICE_NAME"`

	// The following variables name secrets in Secrets Manager that hold these values; see
	// [Config.WithSecrets].
	OpenAIAPIKeySecretARN    string `env:"OPENAI_API_KEY_SECRET_ARN"`
	AnthropicAPIKeySecretARN string `env:"ANTHROPIC_API_KEY_SECRET_ARN"`
	AdminTokenSecretARN      string `env:"ADMIN_TOKEN_SECRET_ARN"`
	JWTSecretSecretARN       string `env:"JWT_SECRET_SECRET_ARN"`
	GatewayTokenSecretARN    string `env:"GATEWAY_TOKEN_SECRET_ARN"`
	SpansHeadersSecretARN    string `env:"OTEL_EXPORTER_OTLP_HEADERS_SECRET_ARN"`

	// Lambda sets the following variables.
	Function  string `env:"AWS_LAMBDA_FUNCTION_NAME"`
	LogStream string `env:"AWS_LAMBDA_LOG_STREAM_NAME"`
	Memory    int    `env:"AWS_LAMBDA_FUNCTION_MEMORY_SIZE"` // in MiB

	set      map[string]bool  // variables that the environment has
	offered  string           // provider whose key is present, while LLM_PROVIDER is not set
	redactor *redact.Redactor // shared by all copies and by their loggers
}

// OnLambda reports whether the process is a Lambda function.
func (c Config) OnLambda() bool { return c.Function != "" }

// OnPostgres reports whether the state is in Postgres.
func (c Config) OnPostgres() bool { return c.StateBackend == db.Postgres }

// LoadConfig reads an environment in the form of [os.Environ]. A variable with an empty value
// counts as not set. It reports all problems at once in a [*problem.ConfigError]. It is called once
// per process, by package edge or by a command of the local runner.
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
		if !c.OnLambda() && c.LLMProvider != "demo" { // it costs money, so a person must choose it
			c.offered, c.LLMProvider = c.LLMProvider, "demo"
		}
	}
	if otherServer := c.LLMProvider == "openai" && c.OpenAIBaseURL != ""; c.LLMModel == "" && !otherServer {
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

// usual maps a provider to its default model.
var usual = map[string]string{"anthropic": "claude-sonnet-4-5", "openai": "gpt-4.1-mini"}

// Offered returns the provider whose key or address is in the environment of the local runner
// although LLM_PROVIDER is not set, and the model that it would use. Both are empty if there is
// none. The agent uses this provider only if LLM_PROVIDER names it, because its calls cost money.
func (c Config) Offered() (provider, model string) {
	if c.offered == "" {
		return "", ""
	}
	return c.offered, cmp.Or(c.LLMModel, usual[c.offered])
}

// suggested returns the provider whose key is in the environment. On Lambda with a model's name it
// returns bedrock, which needs no key. Otherwise it returns demo.
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

// variables returns the names of all variables, in the order of the struct.
func variables() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := f.Tag.Get("env"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// unreadable converts parse errors to problems. Their texts never repeat a value.
func (k *checker) unreadable(err error) {
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return
	}
	for _, err := range all.Errors {
		bad, ok := errors.AsType[env.ParseError](err)
		if !ok {
			k.bad("", "the environment can't be read", "Report this.") // the tags of Config are wrong
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

// inOrder sorts the problems by the position of their variables in Config.
func (k *checker) inOrder() []problem.ConfigProblem {
	order := variables()
	slices.SortStableFunc(k.problems, func(a, b problem.ConfigProblem) int {
		return slices.Index(order, a.Variable) - slices.Index(order, b.Variable)
	})
	return k.problems
}
