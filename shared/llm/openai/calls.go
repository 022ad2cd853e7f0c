package openai

import (
	"encoding/json"
	"slices"
	"strings"
)

// callPiece is a piece of a call, or all of it.
type callPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments text   `json:"arguments"`
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

// openCall is a call of which pieces have come.
type openCall struct {
	slot      *int   // the provider's index
	id, name  string // as the provider writes them
	at        int    // its index in the answer; -1: its name has not come
	chunk     int    // the chunk that last had a piece of it
	arguments strings.Builder
	extra     json.RawMessage // what the server wants back with it
}

// callPiece finds the call that a piece belongs to, the i-th of n in a list, or
// begins one. In an answer in one piece each is a call of its own.
func (a *answer) callPiece(p callPiece, i, n int, whole bool) error {
	var c *openCall
	if !whole {
		c = a.find(p, i, n)
	}
	if c == nil || c.ended(p) || p.Index == nil && c.chunk == a.chunks {
		c = &openCall{slot: p.Index, at: -1}
		a.calls = append(a.calls, c)
	}
	c.chunk = a.chunks
	if c.id == "" {
		c.id = p.ID
	}
	if c.name == "" {
		c.name = p.Function.Name
	}
	if given(p.ExtraContent) {
		if err := a.Keep(len(p.ExtraContent)); err != nil {
			return err
		}
		c.extra = p.ExtraContent
	}
	piece := string(p.Function.Arguments)
	c.arguments.WriteString(piece)
	if c.at < 0 {
		if c.name == "" {
			return a.Hold(len(piece))
		}
		at, err := a.Begin(c.id, c.name)
		if err != nil {
			return err
		}
		c.at, piece = at, c.arguments.String()
	}
	return a.Extend(c.at, piece)
}

// find returns the call that a piece says it belongs to: by index, by id, by its
// place in the list, and if it says nothing, the last; nil if there is none.
func (a *answer) find(p callPiece, i, n int) *openCall {
	last := func(is func(*openCall) bool) *openCall {
		for _, c := range slices.Backward(a.calls) {
			if is(c) {
				return c
			}
		}
		return nil
	}
	switch {
	case p.Index != nil:
		return last(func(c *openCall) bool { return c.slot != nil && *c.slot == *p.Index })
	case p.ID != "":
		return last(func(c *openCall) bool { return c.id == p.ID })
	case n > 1 && p.Function.Name == "" && len(a.calls) >= n:
		return a.calls[len(a.calls)-n+i]
	}
	return last(func(*openCall) bool { return true })
}

// ended reports whether a piece that should belong to the call begins another: it
// has another id or name, or begins the arguments again after they were complete.
func (c *openCall) ended(p callPiece) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	if differ(c.id, p.ID) || differ(c.name, p.Function.Name) {
		return true
	}
	if p.ID == "" && p.Function.Name == "" {
		return false
	}
	return strings.HasPrefix(strings.TrimSpace(string(p.Function.Arguments)), "{") && json.Valid([]byte(c.arguments.String()))
}

// close ends the calls. One that has had no name is malformed, unless it has had
// nothing.
func (a *answer) close() error {
	for _, c := range a.calls {
		if c.at < 0 && c.id+c.arguments.String() != "" {
			if _, err := a.Begin(c.id, c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// text is a JSON string; where some write a value instead, its JSON.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' || string(raw) == "null" {
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = text(raw)
	return nil
}
