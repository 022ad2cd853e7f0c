package app

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/channel"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// checker collects the problems of a configuration.
type checker struct {
	*Config
	problems []problem.ConfigProblem
}

// bad records a problem. It keeps only the first problem of a variable.
func (k *checker) bad(variable, what, do string) {
	if !slices.ContainsFunc(k.problems, func(p problem.ConfigProblem) bool { return variable != "" && p.Variable == variable }) {
		k.problems = append(k.problems, problem.ConfigProblem{Variable: variable, What: what, Do: do})
	}
}

const (
	badLevel = "is not a log level"
	levels   = "Set it to debug, info, warn or error."

	minAdminToken = 16 // characters
	minJWTSecret  = 32 // characters: the key of HS256 must be as long as its hash
)

func (k *checker) check() {
	k.addr()
	k.backend()
	k.model()
	k.people()
	k.web("OPENAI_BASE_URL", k.OpenAIBaseURL)
	k.web("JWKS_URL", k.JWKSURL)
	k.web("GATEWAY_URL", k.GatewayURL)
	k.arns()
	k.tokens()
	k.sender()
	k.spans()
	if k.HeartbeatEvery < time.Minute {
		k.bad("HEARTBEAT_EVERY", "is less than a minute", "Slots are whole minutes: set it to 1m or more.")
	}
	if k.CoordinatorEvery < time.Second {
		k.bad("COORDINATOR_EVERY", "is less than a second", "Set it to 1s or more.")
	}
	if k.CoordinatorEvery > time.Minute {
		k.bad("COORDINATOR_EVERY", "is more than a minute: agents that died would not be noticed", "Set it to 1m or less, such as 30s.")
	}
	if !slices.Contains([]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}, k.LogLevel) {
		k.bad("LOG_LEVEL", badLevel, levels)
	}
	if _, err := outbound.New(outbound.Options{AllowPrivateHosts: k.AllowPrivateHosts}); err != nil {
		k.bad("ALLOW_PRIVATE_HOSTS", "has an entry that is not a host",
			"List names, IP addresses or prefixes, each perhaps with a port, separated by commas.")
	}
	if slices.ContainsFunc(k.AllowedHosts, func(host string) bool { return !isHost(host) }) {
		k.bad("ALLOWED_HOSTS", "has an entry that is not a host", "List names or IP addresses without a port, separated by commas.")
	}
	if k.RedisURL != "" {
		u, err := url.Parse(k.RedisURL)
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
			k.bad("REDIS_URL", "is not a URL of a Redis", "Write it as redis://host:6379, or rediss:// for TLS.")
		}
	}
}

// people checks that a person's sign-in can neither be guessed nor come from an unknown issuer.
func (k *checker) people() {
	if k.JWTSecret != "" && len(k.JWTSecret) < minJWTSecret {
		k.bad("JWT_SECRET", "is too short to sign tokens with", "Use at least 32 characters: `openssl rand -hex 32` makes some.")
	}
	if k.JWTMaxLife <= 0 {
		k.bad("JWT_MAX_LIFE", "is no duration above zero", "Set it to the longest that a person's token may be good for, such as 24h.")
	}
	if k.JWKSURL != "" && k.JWTIssuer == "" {
		k.bad("JWT_ISSUER", "is missing", "Set it to what the issuer of JWKS_URL writes into iss: the people that you know are known by it.")
	}
	if k.AdminToken != "" && len(k.AdminToken) < minAdminToken {
		k.bad("ADMIN_TOKEN", "is too short: it can be guessed", "Use at least 16 characters: `openssl rand -hex 32` makes some.")
	}
}

// Warnings lists settings that work but are unsafe. `lanekeeper doctor` prints it.
func (c Config) Warnings() []problem.ConfigProblem {
	k := checker{Config: &c}
	if (c.given(c.JWTSecret, c.JWTSecretSecretARN) || c.JWKSURL != "") && c.JWTAudience == "" {
		k.bad("JWT_AUDIENCE", "is missing: a token that was made for another application is taken here too",
			"Set it to what your issuer writes into aud for this one.")
	}
	if u, err := url.Parse(c.JWKSURL); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		k.bad("JWKS_URL", "is not https: who is between here and there can sign in as anybody", "Write it as https://host/path.")
	}
	return k.problems
}

// addr checks the listen address. An API without a sign-in must listen on loopback only.
func (k *checker) addr() {
	host, port, err := net.SplitHostPort(k.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || host != "" && !isHost(host) {
		k.bad("ADDR", "is not host:port", "Write it as 127.0.0.1:8080.")
		return
	}
	if k.OnLambda() || isLoopback(host) || k.JWTSecret != "" || k.JWKSURL != "" || len(k.AdminToken) >= minAdminToken {
		return
	}
	k.bad("ADDR", "can be reached from other machines, and no sign-in is configured",
		"Set ADMIN_TOKEN (16 characters or more), JWT_SECRET or JWKS_URL, or listen on 127.0.0.1.")
}

func (k *checker) backend() {
	switch {
	case k.StateBackend == db.SQLite && k.OnLambda():
		k.bad("STATE_BACKEND", "is sqlite, which can't work on Lambda: each sandbox would have a file of its own, and lose it",
			"Leave it out, or set it to postgres, and set DATABASE_URL or DATABASE_SECRET_ARN.")
	case k.StateBackend == db.Postgres:
		k.postgres()
	case k.StateBackend != db.SQLite:
		k.bad("STATE_BACKEND", "is neither sqlite nor postgres", "Set it to one of them.")
	case k.SQLitePath == ":memory:":
		k.bad("SQLITE_PATH", "names a database in memory, which the commands can't share", "Set it to the path of a file.")
	}
}

func (k *checker) postgres() {
	if k.DatabaseURL != "" {
		if _, err := postgres.VerifiedURL(k.DatabaseURL); err != nil {
			k.bad("DATABASE_URL", "can't be used: "+strings.TrimPrefix(err.Error(), "DATABASE_URL "),
				"Write it as postgres://user:password@host:5432/name.")
		}
	}
	switch {
	case k.DatabaseSecretARN == "" && k.DatabaseURL == "" && k.OnLambda():
		k.bad("DATABASE_URL", "is missing",
			"Set it to postgres://user:password@host:5432/name, or DATABASE_SECRET_ARN to a secret that has the like.")
	case k.DatabaseURL == "" && !k.OnLambda():
		k.bad("DATABASE_URL", "is missing",
			"Set it to postgres://user:password@host:5432/name, or STATE_BACKEND to sqlite. (DATABASE_SECRET_ARN is for functions on Lambda.)")
	case k.DatabaseSecretARN != "" && hasPassword(k.DatabaseURL) && k.OnLambda():
		k.bad("DATABASE_URL", "has a password, and so has the secret in DATABASE_SECRET_ARN",
			"Leave one of the two out, or the password out of the URL.")
	}
}

func (k *checker) model() {
	switch k.LLMProvider {
	case "demo":
		return
	case "anthropic":
		if !k.given(k.AnthropicAPIKey, k.AnthropicAPIKeySecretARN) {
			k.bad("ANTHROPIC_API_KEY", "is missing", "Set it to a key of console.anthropic.com, or LLM_PROVIDER to demo."+
				k.orARN("ANTHROPIC_API_KEY", k.AnthropicAPIKeySecretARN))
		}
	case "openai":
		if !k.given(k.OpenAIAPIKey, k.OpenAIAPIKeySecretARN) && k.OpenAIBaseURL == "" {
			k.bad("OPENAI_API_KEY", "is missing", "Set it to a key, or OPENAI_BASE_URL to a server that needs none, or LLM_PROVIDER to demo."+
				k.orARN("OPENAI_API_KEY", k.OpenAIAPIKeySecretARN))
		}
	case "bedrock":
		if k.AWSRegion == "" {
			k.bad("AWS_REGION", "is missing", "Set it to the region whose Bedrock is to be asked, such as us-east-1.")
		}
	default:
		k.bad("LLM_PROVIDER", "names no provider", "Set it to bedrock, anthropic, openai or demo, or leave it out.")
		return
	}
	if slices.Contains(k.Models(), "") || len(k.LLMModel) > 1000 {
		k.bad("LLM_MODEL", "is missing, or one of its names is empty",
			"Set it to the provider's id of a model; further ones, separated by commas, stand in for it.")
	}
}

func (k *checker) web(variable, value string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		k.bad(variable, "is not a URL", "Write it as https://host/path.")
	}
}

// sender checks the sender of e-mails: an address, or a name and an address in angle brackets.
func (k *checker) sender() {
	address := k.EmailFrom
	if _, inside, named := strings.Cut(address, "<"); named {
		address = strings.TrimSuffix(inside, ">")
	}
	if k.EmailFrom != "" && channel.Check(channel.NameEmail, address) != nil {
		k.bad("EMAIL_FROM", "is not an e-mail address", "Write it as agent@example.com.")
	}
}

// tokens checks that tokens and keys can be sent in a header.
func (k *checker) tokens() {
	k.secret("ADMIN_TOKEN", k.AdminToken)
	k.secret("OPENAI_API_KEY", k.OpenAIAPIKey)
	k.secret("ANTHROPIC_API_KEY", k.AnthropicAPIKey)
	k.secret("GATEWAY_TOKEN", k.GatewayToken)
}

// secret checks that a token has visible ASCII characters only, and at most 4096.
func (k *checker) secret(variable, value string) {
	unseen := func(r rune) bool { return r <= ' ' || r > '~' }
	if strings.ContainsFunc(value, unseen) || len(value) > 4096 {
		k.bad(variable, "has characters that no token has, or too many", "Use at most 4096 visible ASCII characters without spaces.")
	}
}

func hasPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return strings.Contains(dsn, "password")
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// isHost reports whether s is an IP address or has the form of a host name.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.' || r == '_')
	}
	return s != "" && len(s) <= 253 && !strings.ContainsFunc(s, odd)
}
