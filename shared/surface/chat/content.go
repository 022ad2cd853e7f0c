package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

const (
	maxMessages = 200       // that count of those before the message that is to be answered
	maxBefore   = 256 << 10 // bytes of those
	maxMessage  = 16 << 10  // bytes of the message that is to be answered
	maxEarlier  = 60 << 10  // and of one before it

	maxInstructions = 100       // that count of those that the messages begin with
	maxInstructed   = 128 << 10 // bytes of those
)

// part is a piece of a message's content.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// textOf is the text of a message's content: a text, or a list of parts of text.
func textOf(at string, raw json.RawMessage) (string, *problem.Problem) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // null is no text
		return text, checkText(at, text)
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return "", bad(at, "expected a text, or a list of parts {type, text}")
	}
	texts := make([]string, 0, len(parts))
	for i, p := range parts {
		if !slices.Contains([]string{"text", "input_text", "output_text", "refusal"}, p.Type) {
			return "", wrongField(http.StatusBadRequest, "unsupported_content", fmt.Sprintf("%s[%d].type", at, i),
				"expected text: nothing else is taken here")
		}
		texts = append(texts, p.Text)
	}
	text = strings.Join(texts, "\n")
	return text, checkText(at, text)
}

// checkText refuses what no thread takes.
func checkText(at, text string) *problem.Problem {
	switch {
	case strings.ContainsRune(text, 0):
		return bad(at, "expected no NUL character")
	case len(text) > maxEarlier:
		return bad(at, "a message has 60 KiB at most")
	}
	return nil
}

// checkMessage refuses what can't be answered.
func checkMessage(at, text string) *problem.Problem {
	switch {
	case strings.TrimSpace(text) == "":
		return bad(at, "expected a message")
	case len(text) > maxMessage:
		return wrongField(http.StatusBadRequest, "string_above_max_length", at, "the message that is to be answered has 16 KiB at most")
	}
	return nil
}

// takes puts into m what counts of the messages before it. Clients send a conversation whole however long it is: its
// instructions count, which are the first of its messages, and the newest others. Instructions are never cut.
func (m *message) takes(said []turn.Said, instructions int) *problem.Problem {
	m.leading = min(instructions, len(said))
	if m.leading > maxInstructions || fitting(said[:m.leading], maxInstructed) < m.leading {
		return tooInstructed
	}
	room := maxBefore
	for _, one := range said[:m.leading] {
		room -= len(one.Body)
	}
	lately := slices.Clone(said[max(m.leading, len(said)-maxMessages+m.leading):])
	slices.Reverse(lately)
	m.before = slices.Delete(said, m.leading, len(said)-fitting(lately, room))
	return nil
}

// fitting returns how many of the first messages have so many bytes together at most.
func fitting(said []turn.Said, most int) (n int) {
	for _, m := range said {
		if most -= len(m.Body); most < 0 {
			break
		}
		n++
	}
	return n
}

// instructs reports whether a role is that of instructions.
func instructs(role string) bool { return role == "system" || role == "developer" }

// saidBy is a message of the context. What is not the agent's is the visitor's: words that call
// themselves the system's among them.
func saidBy(role, body string) turn.Said {
	if role == "assistant" {
		return turn.Said{Role: thread.Assistant, Body: body}
	}
	return turn.Said{Role: thread.User, Body: body}
}
