package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// callPiece is one piece of a call, or the whole call.
type callPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments text   `json:"arguments"`
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

// openCall is a call that is being received.
type openCall struct {
	slot      *int   // the provider's index
	id, name  string // as the provider wrote them
	at        int    // its index in the answer; -1: its name has not arrived
	chunk     int    // the last chunk that held a piece of it
	arguments strings.Builder
	extra     json.RawMessage // data that the server wants back with the call
}

// callPiece adds p to the call that it belongs to, or begins a new call. p is the i-th of n pieces
// in its list. In an answer that is not streamed (whole), each piece is a separate call.
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

// find returns the call that a piece belongs to: by index, by id, or by its position in the list.
// If the piece has none of these, it returns the last call. It returns nil if there is no such
// call.
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

// ended reports whether a piece that seems to belong to the call begins another one. Such a piece
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

// close ends the text and all calls. A call without a name is an error, unless it received nothing at all.
func (a *answer) close() error {
	if err := a.AddText(a.visible.rest(a.stopReason() == llm.StopMaxTokens)); err != nil {
		return err
	}
	a.withdrawThought(true)
	for _, c := range a.calls {
		if c.at < 0 && c.id+c.arguments.String() != "" {
			if _, err := a.Begin(c.id, c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// text is a JSON string. If a server sends another JSON value instead, text holds that JSON.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' || string(raw) == "null" {
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = text(raw)
	return nil
}
