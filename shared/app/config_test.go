package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	aws   = "AWS_LAMBDA_FUNCTION_NAME=lanekeeper-heartbeat"
	pgURL = "DATABASE_URL=postgres://keeper:s3cret-pw@db.example.com:5432/lanekeeper"
	arn   = "DATABASE_SECRET_ARN=arn:aws:secretsmanager:eu-central-1:123456789012:secret:db-Ab12Cd"
)

func load(t *testing.T, environ ...string) app.Config {
	t.Helper()
	c, err := app.LoadConfig(environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := load(t, "EMPTY=", "DEMO=", "ADDR= ")
	if c.Addr != "127.0.0.1:8080" || c.OnPostgres() || c.OnLambda() || c.StateBackend != db.SQLite ||
		c.SQLitePath != ".lanekeeper/lanekeeper.db" || c.LLMProvider != "demo" || c.SecretKeyFile != ".lanekeeper/key" ||
		c.HeartbeatEvery != 30*time.Minute || c.CoordinatorEvery != 30*time.Second || c.Demo != nil ||
		c.AllowPrivateHosts != nil || c.LogLevel != slog.LevelInfo {
		t.Errorf("defaults are\n%v", c)
	}
	if notes := c.Notes(); len(notes) > 0 {
		t.Errorf("notes on nothing: %q", notes)
	}
}

func TestValues(t *testing.T) {
	c := load(t, "HEARTBEAT_EVERY=90m", "DEMO=0", "ALLOW_PRIVATE_HOSTS=Wiki.internal, 10.0.0.7,::1", "ALLOWED_HOSTS=Agents.example, b.example", "LOG_LEVEL=Warn",
		"ADDR=[::1]:0", "ADMIN_TOKEN=sixteen--letters", "REDIS_URL=rediss://:pw@cache:6380", "ADDR=localhost:9000")
	if c.HeartbeatEvery != 90*time.Minute || c.Demo == nil || *c.Demo || c.LogLevel != slog.LevelWarn || c.Addr != "localhost:9000" {
		t.Errorf("values are\n%v", c)
	}
	if want := []string{"agents.example", "b.example"}; !slices.Equal(c.AllowedHosts, want) {
		t.Errorf("hosts to be called by %q", c.AllowedHosts)
	}
	if want := []string{"wiki.internal", "10.0.0.7", "::1"}; !slices.Equal(c.AllowPrivateHosts, want) {
		t.Errorf("hosts %q", c.AllowPrivateHosts)
	}
	if c := load(t, aws, pgURL); !c.OnPostgres() || !c.OnLambda() {
		t.Error("on Lambda the state is not in Postgres")
	}
	if c := load(t, "STATE_BACKEND=postgres", pgURL); !c.OnPostgres() {
		t.Error("STATE_BACKEND=postgres has no effect")
	}
	for _, of := range []struct {
		environ []string
		want    db.Dialect
	}{
		{nil, db.SQLite},
		{[]string{pgURL}, db.Postgres},
		{[]string{pgURL, "STATE_BACKEND=postgres"}, db.Postgres},
		{[]string{pgURL, "STATE_BACKEND=sqlite"}, db.SQLite},
		{[]string{pgURL, "STATE_BACKEND= "}, db.Postgres},
		{[]string{pgURL, "SQLITE_PATH=x.db"}, db.Postgres},
		{[]string{arn}, db.SQLite},
		{[]string{aws, arn}, db.Postgres},
	} {
		if c := load(t, of.environ...); c.StateBackend != of.want {
			t.Errorf("%q: the state is in %s, want %s", of.environ, c.StateBackend, of.want)
		}
	}
	load(t, aws, arn)
	load(t, aws, arn, "DATABASE_URL=postgres://db.example.com/lanekeeper")
}

func TestProblems(t *testing.T) {
	long := strings.Repeat("x", 32)
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT="
	noEndpoint := []string{endpoint[:len(endpoint)-1] + " is not a URL"}
	for _, c := range []struct {
		name    string
		environ []string
		want    []string // the variable and a part of the message
	}{
		{"SQLite on Lambda", []string{aws, pgURL, "STATE_BACKEND=sqlite"}, []string{"STATE_BACKEND can't work on Lambda"}},
		{"no database on Lambda", []string{aws}, []string{"DATABASE_URL is missing"}},
		{"another database, alone", []string{"DATABASE_URL=mysql://root:hunter2hunter2@h/x"}, []string{"DATABASE_URL can't be used"}},
		{"no database", []string{"STATE_BACKEND=postgres"}, []string{"DATABASE_URL is missing"}},
		{"secret, but not on Lambda", []string{"STATE_BACKEND=postgres", arn}, []string{"DATABASE_URL is missing"}},
		{"not an ARN", []string{aws, "DATABASE_SECRET_ARN=hunter2hunter2"}, []string{"DATABASE_SECRET_ARN is not the ARN"}},
		{"no ARN of a token", []string{aws, pgURL, "ADMIN_TOKEN_SECRET_ARN=hunter2hunter2"}, []string{"ADMIN_TOKEN_SECRET_ARN is not the ARN"}},
		{"two tokens", []string{aws, pgURL, "ADMIN_TOKEN=" + long, tokenSecret}, []string{"ADMIN_TOKEN is set, and so is ADMIN_TOKEN_SECRET_ARN"}},
		{"two tokens, but not on Lambda", []string{"ADMIN_TOKEN=" + long, tokenSecret}, nil},
		{"a key in a secret", []string{aws, pgURL, "LLM_PROVIDER=anthropic", keySecret}, nil},
		{"a key in a secret, but not on Lambda", []string{"LLM_PROVIDER=anthropic", keySecret}, []string{"ANTHROPIC_API_KEY is missing"}},
		{"two passwords", []string{aws, arn, pgURL}, []string{"DATABASE_URL has a password"}},
		{"another database", []string{aws, "DATABASE_URL=mysql://root:hunter2hunter2@h/x"}, []string{"DATABASE_URL can't be used"}},
		{"TLS off", []string{aws, pgURL + "?sslmode=disable"}, []string{"DATABASE_URL switches TLS off"}},
		{"unknown backend", []string{"STATE_BACKEND=mysql"}, []string{"STATE_BACKEND is neither"}},
		{"open to all", []string{"ADDR=0.0.0.0:8080"}, []string{"ADDR can be reached"}},
		{"open to all by leaving out", []string{"ADDR=:8080"}, []string{"ADDR can be reached"}},
		{"open with a short token", []string{"ADDR=0.0.0.0:8080", "ADMIN_TOKEN=fifteen-letters"}, []string{"ADDR can be reached", "ADMIN_TOKEN is too short"}},
		{"open with a token", []string{"ADDR=0.0.0.0:8080", "ADMIN_TOKEN=sixteen--letters"}, nil},
		{"open with JWTs", []string{"ADDR=keeper.example.com:80", "JWT_SECRET=" + long}, nil},
		{"open with JWKS", []string{"ADDR=:80", "JWKS_URL=https://id.example.com/keys", "JWT_ISSUER=x"}, nil},
		{"no port", []string{"ADDR=127.0.0.1"}, []string{"ADDR is not host:port"}},
		{"port too high", []string{"ADDR=127.0.0.1:65536"}, []string{"ADDR is not host:port"}},
		{"short key", []string{"JWT_SECRET=hunter2hunter2"}, []string{"JWT_SECRET is too short"}},
		{"no unit", []string{"HEARTBEAT_EVERY=30"}, []string{"HEARTBEAT_EVERY is not a duration"}},
		{"too often", []string{"HEARTBEAT_EVERY=59s", "COORDINATOR_EVERY=-1s"}, []string{"HEARTBEAT_EVERY is less", "COORDINATOR_EVERY is less"}},
		{"no file", []string{"SQLITE_PATH=:memory:"}, []string{"SQLITE_PATH names a database in memory"}},
		{"too seldom", []string{"COORDINATOR_EVERY=61s"}, []string{"COORDINATOR_EVERY is more than a minute"}},
		{"as seldom as can be", []string{"COORDINATOR_EVERY=1m"}, nil},
		{"not a flag", []string{"DEMO=maybe"}, []string{"DEMO is neither 1 nor 0"}},
		{"not a level", []string{"LOG_LEVEL=loud"}, []string{"LOG_LEVEL is not a log level"}},
		{"between levels", []string{"LOG_LEVEL=info+1"}, []string{"LOG_LEVEL is not a log level"}},
		{"no key", []string{"LLM_PROVIDER=anthropic"}, []string{"ANTHROPIC_API_KEY is missing"}},
		{"no key for OpenAI", []string{"LLM_PROVIDER=openai"}, []string{"OPENAI_API_KEY is missing"}},
		{"a server whose models are not known", []string{"LLM_PROVIDER=openai", "OPENAI_BASE_URL=http://localhost:11434/v1"}, []string{"LLM_MODEL is missing"}},
		{"a server beside another provider",
			[]string{"LLM_PROVIDER=anthropic", "ANTHROPIC_API_KEY=k", "OPENAI_BASE_URL=http://localhost:11434/v1"}, nil},
		{"a server and its model", []string{"OPENAI_BASE_URL=http://localhost:11434/v1", "LLM_MODEL=llama3.1"}, nil},
		{"Bedrock nowhere", []string{"LLM_PROVIDER=bedrock", "LLM_MODEL=x"}, []string{"AWS_REGION is missing"}},
		{"an empty stand-in", []string{"LLM_PROVIDER=openai", "OPENAI_API_KEY=sk-1", "LLM_MODEL=gpt-4.1,,x"}, []string{"LLM_MODEL is missing"}},
		{"no such provider", []string{"LLM_PROVIDER=hal"}, []string{"LLM_PROVIDER names no provider"}},
		{"not URLs", []string{"JWKS_URL=keys", "OPENAI_BASE_URL=http://", "LLM_MODEL=x"},
			[]string{"OPENAI_BASE_URL is not a URL", "JWT_ISSUER is missing", "JWKS_URL is not a URL"}},
		{"not a Redis", []string{"REDIS_URL=cache:6379"}, []string{"REDIS_URL is not a URL"}},
		{"not an address", []string{"EMAIL_FROM=agents"}, []string{"EMAIL_FROM is not an e-mail address"}},
		{"an address", []string{"EMAIL_FROM=agents@example.com"}, nil},
		{"an address with a name", []string{"EMAIL_FROM=The shop <agents@example.com>"}, nil},
		{"not hosts", []string{"ALLOW_PRIVATE_HOSTS=a,http://b"}, []string{"ALLOW_PRIVATE_HOSTS has an entry"}},
		{"not hosts to be called by", []string{"ALLOWED_HOSTS=agents.example:443"}, []string{"ALLOWED_HOSTS has an entry"}},
		{"an empty host", []string{"ALLOW_PRIVATE_HOSTS=a,,b"}, []string{"ALLOW_PRIVATE_HOSTS has an entry"}},
		{"token with a space", []string{"ADMIN_TOKEN=hunter2 hunter2 hunter2"}, []string{"ADMIN_TOKEN has characters"}},
		{"a short JWT secret", []string{"JWT_SECRET=hunter2hunter2"}, []string{"JWT_SECRET is too short"}},
		{"keys of nobody", []string{"JWKS_URL=https://id.example.com/keys"}, []string{"JWT_ISSUER is missing"}},
		{"keys and their issuer", []string{"JWKS_URL=https://id.example.com/keys", "JWT_ISSUER=https://id.example.com"}, nil},
		{"a short admin token", []string{"ADMIN_TOKEN=fifteen-letters"}, []string{"ADMIN_TOKEN is too short"}},
		{"tokens of no life", []string{"JWT_MAX_LIFE=0s"}, []string{"JWT_MAX_LIFE is no duration"}},
		{"a short admin token on Lambda", []string{aws, pgURL, "ADMIN_TOKEN=hunter2hunter2"}, []string{"ADMIN_TOKEN is too short"}},
		{"an admin token on Lambda", []string{aws, pgURL, "ADMIN_TOKEN=" + long}, nil},
		{"no receiver", []string{endpoint + "localhost:4318"}, noEndpoint},
		{"a receiver over gRPC", []string{endpoint + "grpc://localhost:4317"}, noEndpoint},
		{"a receiver with a user", []string{endpoint + "https://hunter2@otlp.example.com"}, noEndpoint},
		{"a receiver with a query", []string{endpoint + "https://otlp.example.com/?key=hunter2"}, noEndpoint},
		{"no headers", []string{"OTEL_EXPORTER_OTLP_HEADERS=hunter2"}, []string{"OTEL_EXPORTER_OTLP_HEADERS is not a list"}},
		{"a receiver", []string{endpoint + "https://otlp.example.com/otlp", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x"}, nil},
		{"all at once, in order", []string{"LOG_LEVEL=loud", "LLM_PROVIDER=hal", "ADDR=x", "STATE_BACKEND=postgres"},
			[]string{"ADDR is not", "DATABASE_URL is missing", "LLM_PROVIDER names no", "LOG_LEVEL is not"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := app.LoadConfig(c.environ)
			var got []problem.ConfigProblem
			if bad, ok := errors.AsType[*problem.ConfigError](err); ok {
				got = bad.Problems
			} else if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d problems, want %d: %v", len(got), len(c.want), err)
			}
			for i, p := range got {
				variable, what, _ := strings.Cut(c.want[i], " ")
				if p.Variable != variable || !strings.Contains(p.What, what) || p.Do == "" {
					t.Errorf("problem %d: %v, want %s", i+1, p, c.want[i])
				}
				if !strings.Contains(err.Error(), p.String()) {
					t.Errorf("the error does not say %q", p)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "s3cret-pw")) {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	c := load(t, "OPENAI_API_KEY=sk-1", "LLM_PROVIDER=demo", pgURL, "STATE_BACKEND=sqlite", "JWT_AUDIENCE=lanekeeper")
	notes := strings.Join(c.Notes(), "\n")
	if c.LLMProvider != "demo" || c.OnPostgres() || !strings.Contains(notes, "OPENAI_API_KEY") || !strings.Contains(notes, "DATABASE_URL") || !strings.Contains(notes, "JWT_AUDIENCE") {
		t.Errorf("provider %s, notes %q", c.LLMProvider, notes)
	}
}

// A key alone does not select its provider on a laptop. The provider is only offered.
func TestAKeyOffersItsModel(t *testing.T) {
	for _, of := range []struct {
		environ                  []string
		uses, offered, askingFor string
	}{
		{nil, "demo", "", ""},
		{[]string{"ANTHROPIC_API_KEY=k"}, "demo", "anthropic", "claude-sonnet-4-5"},
		{[]string{"OPENAI_API_KEY=k", "LLM_MODEL=gpt-5"}, "demo", "openai", "gpt-5"},
		{[]string{"OPENAI_BASE_URL=http://localhost:11434/v1", "LLM_MODEL=llama3.1"}, "demo", "openai", "llama3.1"},
		{[]string{"ANTHROPIC_API_KEY=k", "LLM_PROVIDER=demo"}, "demo", "", ""},
		{[]string{"ANTHROPIC_API_KEY=k", "LLM_PROVIDER=anthropic"}, "anthropic", "", ""},
		{[]string{aws, pgURL, "ANTHROPIC_API_KEY=k"}, "anthropic", "", ""},
	} {
		c := load(t, of.environ...)
		if provider, model := c.Offered(); c.LLMProvider != of.uses || provider != of.offered || model != of.askingFor {
			t.Errorf("%q: uses %s, offers %q and %q", of.environ, c.LLMProvider, provider, model)
		}
	}
	notes := strings.Join(load(t, "ANTHROPIC_API_KEY=k").Notes(), "\n")
	if !strings.Contains(notes, "ANTHROPIC_API_KEY is set and not used: the provider is demo. LLM_PROVIDER=anthropic has") {
		t.Errorf("notes %q", notes)
	}
}

func TestWarnings(t *testing.T) {
	secret := "JWT_SECRET=" + strings.Repeat("x", 32)
	for name, c := range map[string]struct{ environ, want []string }{
		"nobody signs in":        {nil, nil},
		"no audience":            {[]string{secret}, []string{"JWT_AUDIENCE"}},
		"an audience":            {[]string{secret, "JWT_AUDIENCE=lanekeeper"}, nil},
		"keys over the open net": {[]string{"JWKS_URL=http://id.example.com/keys", "JWT_ISSUER=x"}, []string{"JWT_AUDIENCE", "JWKS_URL"}},
		"keys of this machine":   {[]string{"JWKS_URL=http://127.0.0.1:9000/keys", "JWT_ISSUER=x", "JWT_AUDIENCE=y"}, nil},
	} {
		var got []string
		for _, p := range load(t, c.environ...).Warnings() {
			got = append(got, p.Variable)
			if p.What == "" || p.Do == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// No way to print a configuration shows its secrets.
func TestRedaction(t *testing.T) {
	c := load(t, pgURL+"?application_name=hunter2", "STATE_BACKEND=postgres", "REDIS_URL=redis://:hunter2@cache:6379/0",
		"OPENAI_API_KEY=hunter2", "ANTHROPIC_API_KEY=hunter2", "ADMIN_TOKEN=hunter2hunter2hunter2", "JWT_SECRET=hunter2"+strings.Repeat("x", 32),
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://otlp.example.com", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2hunter2",
		"OPENAI_BASE_URL=https://hunter2@models.example.com/?key=hunter2", "JWKS_URL=https://id/keys?t=hunter2", "JWT_ISSUER=x")
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", "config", c)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c), "%s": fmt.Sprintf("%s", &c),
		"String": c.String(), "JSON": string(asJSON), "log": log.String(), "settings": fmt.Sprint(c.Redacted()),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "s3cret-pw") {
			t.Errorf("%s shows a secret:\n%s", name, text)
		}
		if !strings.Contains(text, "db.example.com") {
			t.Errorf("%s does not show where the database is:\n%s", name, text)
		}
	}
	settings := map[string]app.Setting{}
	for _, s := range c.Redacted() {
		settings[s.Variable] = s
	}
	for variable, want := range map[string]app.Setting{
		"DATABASE_URL":                {Value: "postgres://keeper@db.example.com:5432/lanekeeper", Set: true},
		"REDIS_URL":                   {Value: "redis://cache:6379/0", Set: true},
		"JWT_SECRET":                  {Value: "set", Set: true},
		"OPENAI_BASE_URL":             {Value: "https://models.example.com/", Set: true},
		"HEARTBEAT_EVERY":             {Value: "30m"},
		"JWT_MAX_LIFE":                {Value: "720h"},
		"OTEL_EXPORTER_OTLP_ENDPOINT": {Value: "https://otlp.example.com", Set: true},
		"OTEL_EXPORTER_OTLP_HEADERS":  {Value: "set", Set: true},
		"OTEL_SERVICE_NAME":           {Value: "lanekeeper"},
		"DEMO":                        {Value: "0"}, // on Postgres
	} {
		want.Variable = variable
		if settings[variable] != want {
			t.Errorf("%s is %+v, want %+v", variable, settings[variable], want)
		}
	}
	if c := load(t, "DATABASE_URL=host=h password=hunter2"); strings.Contains(c.String(), "hunter2") {
		t.Error("a list of key=value is shown with its password")
	}
}

// The secrets in addresses are redacted from whatever else is shown.
func TestSecretsInAddressesAreKnown(t *testing.T) {
	for env, secrets := range map[string][]string{
		pgURL: {"s3cret-pw"},
		pgURL + "?password=opaque-one&sslpassword=opaque-two":                  {"opaque-one", "opaque-two"},
		"DATABASE_URL=host=h password=opaque-one":                              {"opaque-one"},
		"DATABASE_URL=password=opaque-one host=h":                              {"opaque-one"},
		"DATABASE_URL=host=h password='opaque one' dbname=d":                   {"opaque one"},
		`DATABASE_URL=host=h password = 'opaque\'s one' sslpassword=two\ 2two`: {"opaque's one", "two 2two"},
		"REDIS_URL=redis://:opaque-one@cache:6379/0":                           {"opaque-one"},
		"REDIS_URL=redis://opaque-token@cache:6379":                            {"opaque-token"},
		"OPENAI_BASE_URL=https://opaque-token@models.example.com/v1":           {"opaque-token"},
	} {
		known := load(t, env).Known()
		for _, secret := range secrets {
			if got := known.Text("it is " + secret); strings.Contains(got, secret) {
				t.Errorf("%s: it stays %q", env, got)
			}
		}
	}
	known := load(t, pgURL, "OPENAI_BASE_URL=https://keeper1:opaque-one@models.example.com/v1").Known()
	if got := known.Text("keeper, keeper1"); got != "keeper, keeper1" {
		t.Errorf("the names of users become %q", got)
	}
}

// The variables in the code, in `lanekeeper config` and in the guide of the configuration are the
// same, and each has an effect.
func TestEveryVariableIsListedAndUsed(t *testing.T) {
	guide, err := os.ReadFile("../../infra/docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, described []string
	for _, s := range load(t).Redacted() {
		listed = append(listed, s.Variable)
	}
	for line := range strings.Lines(string(guide)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				described = append(described, name)
			}
		}
	}
	var read []string
	code := theCode(t)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[app.Config]()) {
		name := f.Tag.Get("env")
		if name == "" || strings.HasPrefix(name, "AWS_LAMBDA_") { // Lambda sets these
			continue
		}
		read = append(read, name)
		if name != "STATE_BACKEND" && !regexp.MustCompile(`\.`+f.Name+`\b`).MatchString(code) {
			t.Errorf("%s has no effect", name)
		}
	}
	for _, list := range [][]string{listed, described, read} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(read, listed); diff != "" {
		t.Errorf("read and listed:\n%s", diff)
	}
	if diff := cmp.Diff(read, described); diff != "" {
		t.Errorf("read and described in the guide:\n%s", diff)
	}
}

// theCode returns all code that could use a configuration: all except its own files and tests.
func theCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"..", "../../infra", "../../functions"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				slices.Contains([]string{"../app/config.go", "../app/redact.go", "../app/check.go"}, path) {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
