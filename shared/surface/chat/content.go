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

// newest returns what counts of a conversation, which clients send whole however long it is: the first of its messages,
// which are instructions, and the newest ones. It also returns how many instructions these are.
func newest(said []turn.Said, first int) ([]turn.Said, int) {
	first = fitting(said[:min(first, maxMessages/2, len(said))], maxBefore/2)
	room := maxBefore
	for _, m := range said[:first] {
		room -= len(m.Body)
	}
	lately := slices.Clone(said[max(first, len(said)-maxMessages+first):])
	slices.Reverse(lately)
	return slices.Delete(said, first, len(said)-fitting(lately, room)), first
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
