package app

import (
	"net/url"
	"strings"

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

// passwords returns the passwords in a URL, or in a Postgres connection string of key=value pairs.
func passwords(raw string) (all []string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		for _, field := range strings.Fields(raw) {
			if password, ok := strings.CutPrefix(field, "password="); ok {
				all = append(all, strings.Trim(password, "'"))
			}
		}
		return all
	}
	password, _ := u.User.Password()
	return append(all, password, u.Query().Get("password"))
}
