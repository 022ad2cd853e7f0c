package openai

import (
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// extras are fields beside an assistant's text and calls that servers want back: the model's
// thinking, as text or as a list of details, and signatures of it.
type extras struct {
	ReasoningContent thought         `json:"reasoning_content,omitempty"` // DeepSeek, Kimi, GLM, Qwen, vLLM
	Reasoning        thought         `json:"reasoning,omitempty"`         // OpenRouter, vLLM
	ReasoningDetails details         `json:"reasoning_details,omitempty"` // OpenRouter, MiniMax
	ExtraContent     json.RawMessage `json:"extra_content,omitempty"`     // Gemini
}

// thought is a text. Any other JSON value is ignored.
type thought string

// UnmarshalJSON implements json.Unmarshaler.
func (t *thought) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(t)) != nil {
		*t = ""
	}
	return nil
}

// details is a list. Any other JSON value is ignored.
type details []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (d *details) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*[]json.RawMessage)(d)) != nil {
		*d = nil
	}
	return nil
}

// size returns the size in bytes.
func (e extras) size() int {
	n := len(e.ReasoningContent) + len(e.Reasoning) + len(e.ExtraContent)
	for _, d := range e.ReasoningDetails {
		n += len(d)
	}
	return n
}

// gathered collects the extras of a streamed answer.
type gathered struct {
	content, reasoning strings.Builder
	details            []*detail
	extra              json.RawMessage
}

// detail is one entry of reasoning_details. Its texts arrive in pieces.
type detail struct {
	fields map[string]json.RawMessage
	texts  map[string]*strings.Builder
}

func (g *gathered) add(e extras) {
	g.content.WriteString(string(e.ReasoningContent))
	g.reasoning.WriteString(string(e.Reasoning))
	for _, raw := range e.ReasoningDetails {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			continue // not an object: ignore it
		}
		n := len(g.details)
		if n == 0 || !g.details[n-1].goesOn(fields) {
			g.details = append(g.details, &detail{map[string]json.RawMessage{}, map[string]*strings.Builder{}})
			n++
		}
		g.details[n-1].add(fields)
	}
	if given(e.ExtraContent) {
		g.extra = e.ExtraContent
	}
}

// goesOn reports whether fields are the detail's next piece. Such a piece has an index, and the
// same index and type as the detail.
func (d *detail) goesOn(fields map[string]json.RawMessage) bool {
	return given(fields["index"]) && string(d.fields["index"]) == string(fields["index"]) && string(d.fields["type"]) == string(fields["type"])
}

func (d *detail) add(fields map[string]json.RawMessage) {
	for name, value := range fields {
		switch name {
		case "text", "summary", "data", "signature":
			var piece string
			if given(value) && json.Unmarshal(value, &piece) == nil {
				if d.texts[name] == nil {
					d.texts[name] = &strings.Builder{}
				}
				d.texts[name].WriteString(piece)
				continue
			}
		}
		if given(value) || d.fields[name] == nil {
			d.fields[name] = value
		}
	}
}

// extras returns the collected extras.
func (g *gathered) extras() extras {
	e := extras{ReasoningContent: thought(g.content.String()), Reasoning: thought(g.reasoning.String()), ExtraContent: g.extra}
	for _, d := range g.details {
		for name, text := range d.texts {
			d.fields[name], _ = wire.Encode(text.String()) // a string always encodes
		}
		raw, _ := wire.Encode(d.fields) // these values came from JSON
		e.ReasoningDetails = append(e.ReasoningDetails, raw)
	}
	return e
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// carried is what a message keeps for the server: its own extras, and those of its calls by call
// id.
type carried struct {
	extras
	Calls map[string]json.RawMessage `json:"calls,omitempty"`
}

// opaque returns the data to keep with the answer, or nil if there is none.
func (a *answer) opaque(m llm.Message) *llm.Opaque {
	k := carried{extras: a.extras.extras()}
	for _, c := range a.calls {
		if c.at >= 0 && given(c.extra) {
			if k.Calls == nil {
				k.Calls = map[string]json.RawMessage{}
			}
			k.Calls[m.Calls[c.at].ID] = c.extra
		}
	}
	if k.size() == 0 && k.Calls == nil {
		return nil
	}
	data, err := wire.Encode(k)
	if err != nil {
		return nil // can't happen: the values came from JSON
	}
	return &llm.Opaque{Provider: a.from, Model: a.asked, Data: string(data)}
}

// carriedIn returns what a message keeps for a model of this server.
func (m *Model) carriedIn(in llm.Message, model string) (k carried) {
	if data := in.OpaqueFor(m.from, model); data != "" {
		_ = json.Unmarshal([]byte(data), &k) // this package wrote it
	}
	return k
}
