package skill

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Redacted replaces a value that is not shown. It can't be registered as a value.
const Redacted = "[redacted]"

// PublicConfig returns the config without values that look like secrets in plain text: values of
// headers and of URL parameters, and the URL's user information. References to secrets stay
// visible. Only admins see the other values of headers.
func (d Definition) PublicConfig(admin bool) json.RawMessage {
	var config map[string]any
	if json.Unmarshal(d.Config, &config) != nil || config == nil {
		return nil
	}
	for key, value := range config {
		switch value := value.(type) {
		case map[string]any:
			for name, v := range value {
				if text, plain := v.(string); plain && (!admin || Sensitive(name, text)) {
					value[name] = Redacted
				}
			}
		case string:
			if strings.EqualFold(key, "url") {
				config[key] = publicURL(value)
			}
		}
	}
	out, _ := jsonscan.Encode(config) // a decoded value always encodes
	return json.RawMessage(out)
}

// publicURL returns a URL, or a URL template, without the values of sensitive parameters.
func publicURL(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.User != nil {
		return Redacted
	}
	head, query, ok := strings.Cut(raw, "?")
	if !ok {
		return raw
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(value, "{") && Sensitive(name, value) {
			pairs[i] = name + "=" + Redacted
		}
	}
	return head + "?" + strings.Join(pairs, "&")
}

var (
	secretNames  = pattern.New(`(?i)auth|token|secret|key|pass|cookie|credential|signature|^sig$|session|jwt|bearer`)
	secretValues = pattern.New(`(?i)^(bearer|basic|token|digest|apikey|hmac) |^(sk|pk|rk|ghp|gho|ghs|github_pat|xox[a-z]|glpat)[-_]|^(AKIA|ASIA|eyJ)`)
	random       = pattern.New(`^[A-Za-z0-9_+=-]+$`)
)

// Sensitive reports whether the value of a header or parameter looks like a secret, by its name or
// by its own form.
func Sensitive(name, value string) bool {
	if secretNames().MatchString(name) || secretValues().MatchString(value) {
		return true
	}
	return len(value) >= 24 && random().MatchString(value) && strings.ContainsAny(value, "0123456789") &&
		strings.ContainsAny(strings.ToLower(value), "abcdefghijklmnopqrstuvwxyz")
}
