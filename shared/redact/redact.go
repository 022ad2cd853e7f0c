package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

const (
	// MaxText is the most bytes of a text or a JSON value that are looked through; a
	// larger one is replaced as a whole.
	MaxText = 2 << 20
	// Mark is what is shown in the place of a secret.
	Mark = "[redacted]"
	// Reference is the member's name of a reference to a secret: {"$secret": "name"}.
	Reference = "$secret"
	// maxNested is how many JSON texts within each other's texts are taken apart.
	maxNested = 4
)

// Secret is a text that nobody may see.
type Secret interface{ Reveal() string }

// Redactor takes secrets out of what is told. It knows values, those that the run
// has resolved, and finds them as they are and escaped for JSON, URLs and HTML, in
// hex, and in base64, alone or within more. Beside those it hides what stands under
// a name that tells of a secret, and what looks like a token; for these two it
// needs to know nothing, and a nil Redactor does them too.
//
// Values of fewer than 4 bytes are not looked for (in base64: 6), for they stand
// everywhere. It is safe for concurrent use.
type Redactor struct {
	parent *Redactor
	values bool       // neither names nor shapes are looked at
	mu     sync.Mutex // of those who add
	known  atomic.Pointer[known]
}

// New makes a redactor that also knows what its parent, which may be nil,
// knows now and will know: a process has one for its configuration, and each run
// one for itself.
func New(parent *Redactor) *Redactor { return &Redactor{parent: parent} }

// Add makes values known. A nil Redactor forgets them.
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

// Values is a redactor that takes out what r knows, and leaves alone what only has the name
// or the shape of a secret: for texts that must go on meaning the same, however long.
func (r *Redactor) Values() *Redactor { return &Redactor{parent: r, values: true} }

// bare reports whether names and shapes are left alone.
func (r *Redactor) bare() bool { return r != nil && r.values }

type contextKey struct{}

// With returns a context whose run has a redactor: it learns what
// the store of secrets resolves under it, and cleans what [NewHandler] logs under it.
func With(ctx context.Context, r *Redactor) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// From is the redactor of a context's run. It may be nil, and works then as
// one that knows no values.
func From(ctx context.Context) *Redactor {
	r, _ := ctx.Value(contextKey{}).(*Redactor)
	return r
}

// Text is s without secrets: s itself if it has none.
func (r *Redactor) Text(s string) string { return r.text(s, maxNested) }

// JSON is raw without secrets: raw itself if it has none. What is valid JSON stays
// valid and keeps its structure, the order of its members and its numbers to the
// digit; what is not becomes a JSON string. References to secrets stay. Where a
// value is known that spans several parts of the JSON, all of it is replaced.
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

// text is Text where JSON may be nested as deep as said.
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

// isDocument reports whether a text is JSON, and more than a word or a number.
func isDocument(s string) bool {
	start := run(s, 0, func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
	return start < len(s) && (s[start] == '{' || s[start] == '[' || s[start] == '"') && json.Valid([]byte(s))
}

// flat is a text, whatever it is, without secrets.
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

// knows reports whether a text holds a known value.
func (r *Redactor) knows(s string) bool {
	for at := r; at != nil; at = at.parent {
		if at.known.Load().find(s, nil) != nil {
			return true
		}
	}
	return false
}

// document is a JSON text, which is valid, without secrets, and whether there were
// any.
func (r *Redactor) document(s string, nested int) (string, bool) {
	var edits []jsonscan.Edit
	replace := func(t jsonscan.Token, with string) {
		edits = append(edits, jsonscan.Edit{Start: t.Start, End: t.End, With: with})
	}
	sc := jsonscan.New(s)
	hidden := 0     // how many brackets were open where all within is to be hidden; 0: nowhere
	member := false // the value of a sensitive member comes next
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		hide := hidden > 0 || member
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
			if hide {
				if text != "" && text != Mark {
					replace(t, jsonscan.Quote(Mark))
				}
			} else if clean := r.text(text, nested); clean != text {
				replace(t, jsonscan.Quote(clean))
			}
		case '0':
			if hide || r.knows(s[t.Start:t.End]) {
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
