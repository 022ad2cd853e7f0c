package skill

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Redacted stands where a value is not shown. It can't be registered as one.
const Redacted = "[redacted]"

// PublicConfig is the config without what looks like a secret in clear: values of
// headers and of the URL's parameters, and who the URL logs in as. References to
// secrets are shown as they are, other values of headers to admins alone.
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
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(config) // what was decoded encodes
	return bytes.TrimSpace(out.Bytes())
}

// publicURL is a URL, or a template of one, without sensitive parameters.
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

// Sensitive reports whether the value of a header or parameter looks like a secret,
// by its name or by itself.
func Sensitive(name, value string) bool {
	if secretNames().MatchString(name) || secretValues().MatchString(value) {
		return true
	}
	return len(value) >= 24 && random().MatchString(value) && strings.ContainsAny(value, "0123456789") && strings.ContainsAny(strings.ToLower(value), "abcdefghijklmnopqrstuvwxyz")
}
