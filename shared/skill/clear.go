package skill

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// checkClear refuses a config that holds credentials as plain text, because the stored config is
// not encrypted. Rows that were stored before this check continue to work.
func checkClear(bad *InvalidError, raw json.RawMessage) {
	var config struct {
		URL     string                     `json:"url"`
		Headers map[string]json.RawMessage `json:"headers"`
	}
	_ = json.Unmarshal(raw, &config) // the kind has validated it already
	for name, raw := range config.Headers {
		var value string
		if json.Unmarshal(raw, &value) == nil {
			bad.If(credential(name, value) || value != "" && keyed().MatchString(name), "config.headers."+name,
				`holds a credential in the clear: use {"$secret": name}`)
		}
	}
	head, query, _ := strings.Cut(config.URL, "?")
	if u, err := url.Parse(head); err == nil {
		bad.If(u.User != nil, "config.url", `logs in, in the clear: send the credential in a header, and use {"$secret": name} there`)
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		bad.If(!strings.HasPrefix(value, "{") && credential(name, value), "config.url",
			`holds a credential in the clear, in a parameter: send it in a header, and use {"$secret": name} there`)
	}
}

// keyed matches header names whose last word indicates a credential.
var keyed = pattern.New(`(?i)(^|[-_])(key|token|auth|signature)$`)

// credential reports whether a value is a credential, by the header's name or by the value's form.
func credential(name, value string) bool {
	if value == "" || value == Redacted {
		return false
	}
	var anybodys *redact.Redactor
	return redact.Tells(name) || secretValues().MatchString(value) || anybodys.Text(value) != value
}
