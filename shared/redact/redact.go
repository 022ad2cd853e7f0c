package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

const (
	// MaxText is the largest text or JSON value, in bytes, that is searched. A larger one is
	// replaced as a whole.
	MaxText = 2 << 20
	// Mark replaces a secret.
	Mark = "[redacted]"
	// Reference is the member name of a reference to a secret: {"$secret": "name"}.
	Reference = "$secret"
	// maxNested is the number of nested JSON texts that are parsed.
	maxNested = 4
)

// Secret is a confidential text.
type Secret interface{ Reveal() string }

// Redactor removes secrets from texts. It knows values, such as those that a run has resolved. It
// finds them as plain text, escaped for JSON, URLs and HTML, in hex, and in base64, alone or within
// longer texts. It also hides the values of sensitive names and texts in the form of a token. These
// need no known values, so a nil Redactor hides them too.
//
// It does not search for values of fewer than 4 bytes (in base64: 6), because these occur by
// chance. It is safe for concurrent use.
type Redactor struct {
	parent *Redactor
	values bool       // ignores names and forms
	mu     sync.Mutex // held while values are added
	known  atomic.Pointer[known]
}

// New returns a redactor that also knows all present and future values of its parent, which may be
// nil. A process has one for its configuration, and each run has one of its own.
func New(parent *Redactor) *Redactor { return &Redactor{parent: parent} }

// Add makes values known. On a nil Redactor it does nothing.
func (r *Redactor) Add(values ...Secret) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.known.Load()
	for _, v := range values {
		k = k.including(v.Reveal())
	}
	r.known.Store(k)
}

// Values returns a redactor that removes only the values that r knows, and ignores names and forms.
// It is for texts of any length whose meaning must not change.
func (r *Redactor) Values() *Redactor { return &Redactor{parent: r, values: true} }

// bare reports whether the redactor ignores names and forms.
func (r *Redactor) bare() bool { return r != nil && r.values }

type contextKey struct{}

// With returns a context with a redactor. The redactor learns the secrets that are resolved under
// the context, and cleans what [NewHandler] logs under it.
func With(ctx context.Context, r *Redactor) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// From returns the redactor of a context. It may be nil; a nil Redactor knows no values.
func From(ctx context.Context) *Redactor {
	r, _ := ctx.Value(contextKey{}).(*Redactor)
	return r
}

// Text returns s without secrets, or s itself if it has none.
func (r *Redactor) Text(s string) string { return r.text(s, maxNested) }

// JSON returns raw without secrets, or raw itself if it has none. Valid JSON stays valid and keeps
// its structure, the order of its members and the digits of its numbers. Invalid JSON becomes a
// JSON string. References to secrets stay. If a known value spans several parts of the JSON, the
// whole JSON is replaced.
func (r *Redactor) JSON(raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
		return raw
	case len(raw) > MaxText && !r.bare():
		return json.RawMessage(jsonscan.Quote(tooLarge(len(raw))))
	case !json.Valid(raw):
		return json.RawMessage(jsonscan.Quote(r.flat(string(raw))))
	}
	out, changed := r.document(string(raw), maxNested)
	if r.knows(out) {
		return json.RawMessage(jsonscan.Quote(Mark))
	}
	if !changed {
		return raw
	}
	return json.RawMessage(out)
}

func tooLarge(n int) string { return fmt.Sprintf("%s: %d bytes", Mark, n) }

// text is Text with a limit for nested JSON.
func (r *Redactor) text(s string, nested int) string {
	if len(s) < minKnown {
		return s
	}
	if len(s) > MaxText && !r.bare() {
		return tooLarge(len(s))
	}
	if nested > 0 && isDocument(s) {
		out, _ := r.document(s, nested-1)
		if !r.knows(out) {
			return out
		}
		s = out
	}
	return r.flat(s)
}

// isDocument reports whether a text is a JSON object, array or string.
func isDocument(s string) bool {
	start := run(s, 0, func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
	return start < len(s) && (s[start] == '{' || s[start] == '[' || s[start] == '"') && json.Valid([]byte(s))
}

// flat returns any text without secrets, without parsing it.
func (r *Redactor) flat(s string) string {
	var spans []span
	for at := r; at != nil; at = at.parent {
		spans = at.known.Load().find(s, spans)
	}
	if !r.bare() {
		spans = shaped(s, spans)
	}
	if spans == nil {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	var edits []jsonscan.Edit
	for _, next := range spans {
		if n := len(edits); n > 0 && next.start < edits[n-1].End {
			edits[n-1].End = max(edits[n-1].End, next.end)
			continue
		}
		edits = append(edits, jsonscan.Edit{Start: next.start, End: next.end, With: Mark})
	}
	return jsonscan.Apply(s, edits)
}

// knows reports whether a text contains a known value.
func (r *Redactor) knows(s string) bool {
	for at := r; at != nil; at = at.parent {
		if at.known.Load().find(s, nil) != nil {
			return true
		}
	}
	return false
}

// document returns a valid JSON text without secrets, and whether it had any.
func (r *Redactor) document(s string, nested int) (string, bool) {
	var edits []jsonscan.Edit
	replace := func(t jsonscan.Token, with string) {
		edits = append(edits, jsonscan.Edit{Start: t.Start, End: t.End, With: with})
	}
	sc := jsonscan.New(s)
	hidden := 0     // number of open brackets at the start of the hidden part; 0: nothing is hidden
	member := false // the value of a sensitive member comes next
	flag := false   // the value of a sensitive flag comes next, as in ["--password", "x"]
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		hide, after := hidden > 0 || member, flag
		flag = false
		if t.Name {
			text := sc.Decoded(t)
			member = !r.bare() && sensitive(text)
			if clean := r.flat(text); clean != text {
				replace(t, jsonscan.Quote(clean))
			}
			continue
		}
		switch t.Kind {
		case '{', '[':
			name, ok := jsonscan.Token{}, false
			if t.Kind == '{' {
				name, ok = sc.Sole(t, Reference)
			}
			if ok {
				if text := sc.Decoded(name); r.flat(text) != text {
					replace(name, jsonscan.Quote(Mark))
				}
			} else if member && hidden == 0 {
				hidden = sc.Depth()
			}
		case '}', ']':
			if sc.Depth() < hidden {
				hidden = 0
			}
		case '"':
			text := sc.Decoded(t)
			if hide || after && !strings.HasPrefix(text, "-") {
				if text != "" && text != Mark {
					replace(t, jsonscan.Quote(Mark))
				}
			} else if clean := r.text(text, nested); clean != text {
				replace(t, jsonscan.Quote(clean))
			}
			flag = !r.bare() && strings.HasPrefix(text, "--") && run(text, 2, slugByte) == len(text) && sensitive(text[2:])
		case '0':
			if hide || after || r.knows(s[t.Start:t.End]) {
				replace(t, jsonscan.Quote(Mark))
			}
		}
		member = false
	}
	if edits == nil {
		return s, false
	}
	return jsonscan.Apply(s, edits), true
}
