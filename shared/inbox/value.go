package inbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
)

// environment holds the values that rules and templates can use: body, headers, event, id, source.
type environment map[string]any

const (
	maxPath     = 200
	maxSegments = 32
)

// roots lists the first segments that a path may have.
var roots = []string{"body", "headers", "event", "id", "source"}

// legalPath reports whether a path is valid.
func legalPath(path string) bool {
	parts := strings.Split(path, ".")
	return len(path) <= maxPath && len(parts) <= maxSegments && slices.Contains(roots, parts[0]) &&
		!slices.Contains(parts, "") && storable(path)
}

// headerIn returns the name of the header that a path names.
func headerIn(path string) (name string, is bool) { return strings.CutPrefix(path, "headers.") }

// find returns the value at a dotted path. Numbers are positions in arrays. ok is false if there is
// no value.
func (env environment) find(path string) (found any, ok bool) {
	root, rest, more := strings.Cut(path, ".")
	v, ok := env[root]
	if headers, is := v.(map[string]string); is && more {
		value, found := headers[strings.ToLower(rest)]
		return value, found
	}
	for more && ok {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[part]
		case []any:
			n, err := strconv.Atoi(part)
			if ok = err == nil && n >= 0 && n < len(at); ok {
				v = at[n]
			}
		default:
			ok = false
		}
	}
	if !ok {
		return nil, false
	}
	if headers, is := v.(map[string]string); is {
		all := map[string]any{}
		for name, value := range headers {
			all[name] = value
		}
		v = all
	}
	return v, true
}

// maxNumber is the longest number that is passed on as a number, in digits.
const maxNumber = 1000

// repaired returns a value whose texts and field names the database can store. fits is false if the
// value has a number that the database cannot store.
func repaired(v any) (_ any, fits bool) {
	fits = true
	part := func(v any) any {
		clean, ok := repaired(v)
		fits = fits && ok
		return clean
	}
	switch v := v.(type) {
	case string:
		return activity.Text(v), true
	case json.Number:
		return v, len(v) <= maxNumber && activity.Fits(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = part(item)
		}
		return out, fits
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[activity.Text(name)] = part(item)
		}
		return out, fits
	}
	return v, true
}

// text returns the text or the number at a path, or an empty text if there is none.
func (env environment) text(path string) string {
	v, _ := env.find(path)
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}
