package app

import (
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Known returns a redactor for the secrets of the configuration. All copies of c share it.
func (c Config) Known() *redact.Redactor {
	r := c.redactor
	if r == nil {
		r = redact.New(nil)
	}
	all := []string{c.AdminToken, c.JWTSecret, c.OpenAIAPIKey, c.AnthropicAPIKey, c.GatewayToken}
	for _, raw := range []string{c.DatabaseURL, c.RedisURL, c.OpenAIBaseURL, c.JWKSURL, c.GatewayURL} {
		all = append(all, passwords(raw)...)
	}
	for _, value := range c.HeadersOfSpans() {
		_, credential, _ := strings.Cut(value, " ") // behind the scheme, as in Bearer
		all = append(all, value, credential)
	}
	for _, s := range all {
		if !redact.Ordinary(s) {
			r.Add(secret.NewValue(s))
		}
	}
	return r
}

// dsnPassword finds the passwords in a Postgres connection string of key=value pairs. A value in quotes may hold spaces;
// a backslash is before a character that stands for itself.
var dsnPassword = pattern.New(`(?s)(?:^|\s)(?:ssl)?password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)+))`)

var escaped = pattern.New(`(?s)\\(.)`)

// passwords returns the passwords in a URL, or in a Postgres connection string of key=value pairs. A
// user name without a password may be a token, except in a URL of a Postgres.
func passwords(raw string) (all []string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		for _, found := range dsnPassword().FindAllStringSubmatch(raw, -1) {
			all = append(all, escaped().ReplaceAllString(found[1]+found[2], "$1"))
		}
		return all
	}
	password, has := u.User.Password()
	if !has && !strings.HasPrefix(u.Scheme, "postgres") {
		all = append(all, u.User.Username())
	}
	query := u.Query()
	return append(all, password, query.Get("password"), query.Get("sslpassword"))
}
