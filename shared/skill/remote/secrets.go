package remote

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Secrets holds values to redact, in all forms in which a server may echo them. The zero value
// redacts nothing.
type Secrets struct {
	values   []string
	replacer *strings.Replacer
}

// minSecret is the shortest length in bytes that is redacted. Redacting shorter texts would destroy
// most of an answer.
const minSecret = 4

// NewSecrets returns Secrets that redact the values. Of a value such as "Bearer …", it also redacts
// the part after the first space.
func NewSecrets(values ...string) Secrets {
	var forms []string
	add := func(s string) {
		if len(s) < minSecret {
			return
		}
		quoted, _ := json.Marshal(s) // a string always encodes
		forms = append(forms, s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)),
			string(bytes.Trim(quoted, `"`)), strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`))
	}
	for _, v := range values {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token)
		}
	}
	// Longest first: among forms with the same beginning, the whole form must be replaced.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, skill.Redacted)
	}
	return Secrets{values, strings.NewReplacer(pairs...)}
}

// With returns Secrets that redact these values too.
func (s Secrets) With(values ...string) Secrets {
	if len(values) == 0 {
		return s
	}
	return NewSecrets(append(slices.Clone(s.values), values...)...)
}

// Redact returns text without the secrets.
func (s Secrets) Redact(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// RedactValue returns a decoded JSON value without the secrets. It may change v in place.
func (s Secrets) RedactValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.Redact(v)
	case json.Number:
		if text := s.Redact(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = s.RedactValue(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, value := range v {
			clean[s.Redact(name)] = s.RedactValue(value)
		}
		return clean
	}
	return v
}
