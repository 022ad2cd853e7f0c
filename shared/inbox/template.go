package inbox

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
)

// maxRendered is the longest result of an action's templates, in bytes.
const maxRendered = 64 << 10

// errRendered says that the result of the templates is too large.
var errRendered = errors.New("its rule's templates become more than 64 KiB with this delivery")

// errMisfit says that the templates use a number that cannot be stored.
var errMisfit = errors.New("its rule passes on a number that is out of range in this delivery")

// legalTemplate reports whether all templates of a text are valid.
func legalTemplate(text string) bool {
	ok := true
	eachTemplate(text, func(string) {}, func(path string) { ok = ok && legalPath(path) })
	return ok && strings.Count(text, "{{") == strings.Count(text, "}}")
}

// eachTemplate splits a text into plain parts and the paths of its templates.
func eachTemplate(text string, plain, path func(string)) {
	for {
		before, rest, open := strings.Cut(text, "{{")
		inner, after, closed := strings.Cut(rest, "}}")
		if !open || !closed {
			plain(text)
			return
		}
		plain(before)
		path(strings.TrimSpace(inner))
		text = after
	}
}

// eachText calls fn with each string in a JSON value, except the names of fields.
func eachText(v any, fn func(string)) {
	switch v := v.(type) {
	case string:
		fn(v)
	case []any:
		for _, item := range v {
			eachText(item, fn)
		}
	case map[string]any:
		for _, item := range v {
			eachText(item, fn)
		}
	}
}

// rendering fills in templates. It records whether a value came from outside.
type rendering struct {
	env     environment
	left    int // bytes that may still be written
	outside bool
	misfit  bool // a template uses a number that the database cannot store
}

func render(env environment) *rendering { return &rendering{env: env, left: maxRendered} }

// text fills in the templates of a text. A missing value becomes an empty text. A value that is not
// a text becomes JSON.
func (r *rendering) text(text string) string {
	var out strings.Builder
	write := func(s string) {
		if r.left -= len(s); r.left >= 0 {
			out.WriteString(s)
		}
	}
	eachTemplate(text, write, func(path string) {
		r.outside = true
		if r.left < 0 {
			return // too large already: another value may take long to write
		}
		v, _ := r.env.find(path)
		switch v := v.(type) {
		case nil:
		case string:
			write(activity.Text(v))
		default:
			v, _ = repaired(v)        // any number is fine here, because it becomes text
			raw, _ := json.Marshal(v) // decoded from JSON before
			write(string(raw))
		}
	})
	return out.String()
}

// value fills in the templates of a JSON value. A string that consists of one template becomes the
// value itself, of any type, or null if it is missing.
func (r *rendering) value(v any) any {
	switch v := v.(type) {
	case string:
		if path, whole := wholeTemplate(v); whole {
			return r.whole(path)
		}
		return r.text(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = r.value(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = r.value(item)
		}
		return out
	}
	return v
}

// wholeTemplate returns the path of a text that consists of one template.
func wholeTemplate(text string) (path string, ok bool) {
	inner, begins := strings.CutPrefix(text, "{{")
	inner, ends := strings.CutSuffix(inner, "}}")
	return strings.TrimSpace(inner), begins && ends && !strings.Contains(inner, "{{") && !strings.Contains(inner, "}}")
}

func (r *rendering) whole(path string) any {
	r.outside = true
	if r.left < 0 {
		return nil // too large already: another value may take long to write
	}
	found, _ := r.env.find(path)
	v, fits := repaired(found)
	r.misfit = r.misfit || !fits
	raw, _ := json.Marshal(v) // decoded from JSON before
	if r.left -= len(raw); r.left < 0 {
		return nil
	}
	return v
}

// object fills in the templates of an object. An empty text counts as an empty object.
func (r *rendering) object(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	out, _ := r.value(v).(map[string]any) // validated when the rule was stored
	return out, r.err()
}

// err returns an error if the result is too large or cannot be stored.
func (r *rendering) err() error {
	if r.misfit {
		return errMisfit
	}
	if r.left < 0 {
		return errRendered
	}
	return nil
}
