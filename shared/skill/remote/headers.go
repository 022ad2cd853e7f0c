package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// Expand replaces {"$secret": name} in a JSON value with the secrets of a workspace.
type Expand func(ctx context.Context, ws db.Workspace, raw json.RawMessage) (json.RawMessage, error)

// Headers holds the valid headers of a config. Their secrets are not resolved yet.
type Headers struct {
	plain  map[string]string
	secret map[string]json.RawMessage // {"$secret": name}
}

const (
	maxHeaders = 32
	maxHeader  = 8 << 10
)

// ours lists the headers that net/http writes, and headers that would change the request's meaning.
var ours = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade",
}

// ParseHeaders validates the headers of a config. reserved lists names that the kind itself sets.
func ParseHeaders(given map[string]json.RawMessage, reserved ...string) (Headers, error) {
	h := Headers{map[string]string{}, map[string]json.RawMessage{}}
	refuse := func(name, problem string) (Headers, error) {
		return Headers{}, skill.Invalid("config.headers."+name, "%s", problem)
	}
	if len(given) > maxHeaders {
		return Headers{}, skill.Invalid("config.headers", "may be %d at most", maxHeaders)
	}
	seen := append(slices.Clone(ours), reserved...)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !isToken(name) {
			return refuse(name, "is no name of a header")
		}
		canonical := http.CanonicalHeaderKey(name)
		if slices.Contains(seen, canonical) {
			return refuse(name, "is set twice, or by the request itself")
		}
		seen = append(seen, canonical)
		var value string
		if json.Unmarshal(given[name], &value) == nil && given[name][0] == '"' {
			if !isHeaderValue(value) || value == skill.Redacted {
				return refuse(name, "is no value of a header")
			}
			h.plain[canonical] = value
			continue
		}
		if !isReference(given[name]) {
			return refuse(name, `must be a text or {"$secret": name}`)
		}
		h.secret[canonical] = given[name]
	}
	return h, nil
}

// isReference reports whether a value is {"$secret": name}.
func isReference(raw json.RawMessage) bool {
	var ref map[string]string
	return json.Unmarshal(raw, &ref) == nil && len(ref) == 1 && secretName().MatchString(ref["$secret"]) && len(ref["$secret"]) <= 64
}

var secretName = pattern.New(`^[A-Za-z0-9_.-]+$`)

// Resolve returns the headers with their secrets, and the secrets that must be redacted from an
// answer. An error is a [skill.RefusalError] that wraps the cause.
func (h Headers) Resolve(ctx context.Context, ws db.Workspace, expand Expand) (http.Header, Secrets, error) {
	out := http.Header{}
	var hidden []string
	for name, value := range h.plain {
		out.Set(name, value)
		if skill.Sensitive(name, value) {
			hidden = append(hidden, value)
		}
	}
	if len(h.secret) == 0 {
		return out, NewSecrets(hidden...), nil
	}
	unusable := skill.Fail(skill.Ours, "the skill's secrets can't be had")
	raw, err := json.Marshal(h.secret)
	if err != nil {
		return nil, Secrets{}, fmt.Errorf("%w: %w", unusable, err)
	}
	if raw, err = expand(ctx, ws, raw); err != nil {
		return nil, Secrets{}, fmt.Errorf("%w: %w", unusable, err)
	}
	var values map[string]string
	if json.Unmarshal(raw, &values) != nil { // json's error would quote the secrets
		return nil, Secrets{}, fmt.Errorf("%w: %w", unusable, errors.New("a secret is no text"))
	}
	for name := range h.secret {
		if values[name] == "" || !isHeaderValue(values[name]) {
			return nil, Secrets{}, fmt.Errorf("%w: the secret of header %s can't stand there", unusable, name)
		}
		out.Set(name, values[name])
		hidden = append(hidden, values[name])
	}
	return out, NewSecrets(hidden...), nil
}

// isToken reports whether s is a valid header name.
func isToken(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// isHeaderValue reports whether s is a valid header value.
func isHeaderValue(s string) bool {
	return len(s) <= maxHeader && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f })
}
