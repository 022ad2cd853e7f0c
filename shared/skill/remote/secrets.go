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

// Secrets are texts that nobody is to see, in the forms a server may echo them in.
// The zero value hides nothing.
type Secrets struct {
	values   []string
	replacer *strings.Replacer
}

// minSecret is the length in bytes below which a text is no secret: taking every
// such text out of an answer would leave nothing of it.
const minSecret = 4

// NewSecrets hides the values, and of "Bearer …" what follows too.
func NewSecrets(values ...string) Secrets {
	var forms []string
	add := func(s string) {
		if len(s) < minSecret {
			return
		}
		quoted, _ := json.Marshal(s) // a text encodes
		forms = append(forms, s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)),
			string(bytes.Trim(quoted, `"`)), strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`))
	}
	for _, v := range values {
		add(v)
		if _, token, ok := strings.Cut(v, " "); ok {
			add(token)
		}
	}
	// The longest first: of forms that begin alike it is the one to be replaced whole.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, skill.Redacted)
	}
	return Secrets{values, strings.NewReplacer(pairs...)}
}

// With hides more values.
func (s Secrets) With(values ...string) Secrets {
	if len(values) == 0 {
		return s
	}
	return NewSecrets(append(slices.Clone(s.values), values...)...)
}

// Redact is a text without the secrets.
func (s Secrets) Redact(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// RedactValue is a decoded JSON value without the secrets, wherever they stand.
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
