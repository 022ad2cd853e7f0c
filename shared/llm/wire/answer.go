package wire

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Answer collects an answer from its pieces and passes each piece on immediately. It is not safe
// for concurrent use.
type Answer struct {
	onDelta func(llm.Delta) // never nil
	asked   []llm.Message   // input of the ids that we make
	digest  []byte          // of asked; nil: not needed yet
	taken   map[string]bool // the ids of the conversation and of this answer
	text    strings.Builder
	calls   []*call
	kept    int // bytes
}

type call struct {
	id, name  string
	arguments strings.Builder
}

// callSize is what each call counts in addition to its texts, in bytes.
const callSize = 1 << 10

// ErrTooMuch is the error of an answer larger than [MaxKept].
var ErrTooMuch = errors.New("the answer is too long")

// NewAnswer returns an empty answer to a request. onDelta may be nil.
func NewAnswer(req llm.Request, onDelta func(llm.Delta)) Answer {
	if onDelta == nil {
		onDelta = func(llm.Delta) {}
	}
	a := Answer{onDelta: onDelta, asked: req.Messages, taken: map[string]bool{}}
	for _, m := range req.Messages {
		for _, c := range m.Calls {
			a.taken[c.ID] = true
		}
	}
	return a
}

// Think passes on that something arrived which is not part of the result, such as a piece of
// thinking or a keepalive.
func (a *Answer) Think() { a.onDelta(llm.Delta{}) }

// AddText adds to the text.
func (a *Answer) AddText(piece string) error {
	if piece == "" {
		return nil
	}
	if err := a.Keep(len(piece)); err != nil {
		return err
	}
	a.text.WriteString(piece)
	a.onDelta(llm.Delta{Text: piece})
	return nil
}

// Text returns the text so far.
func (a *Answer) Text() string { return a.text.String() }

// Restate replaces the text. What was passed on before is void, and the calls so far are passed on again.
func (a *Answer) Restate(text string) {
	a.text.Reset()
	a.text.WriteString(text)
	a.onDelta(llm.Delta{Restart: true, Text: text})
	for i, c := range a.calls {
		a.onDelta(llm.Delta{Call: &llm.CallDelta{Index: i, ID: c.id, Name: c.name, Arguments: llm.Arguments(c.arguments.String())}})
	}
}

// Begin adds a call and returns its index. If the id is empty, or another call of the conversation
// has it, Begin replaces it with an id of our own.
func (a *Answer) Begin(id, name string) (int, error) {
	if name == "" {
		return 0, errors.New("a call without a name")
	}
	if err := a.Keep(len(id) + len(name) + callSize); err != nil {
		return 0, err
	}
	index := len(a.calls)
	for n := 0; id == "" || a.taken[id]; n++ {
		id = a.freshID(index, n)
	}
	a.taken[id] = true
	a.calls = append(a.calls, &call{id: id, name: name})
	a.onDelta(llm.Delta{Call: &llm.CallDelta{Index: index, ID: id, Name: name}})
	return index, nil
}

// freshID returns an id of our own. It is always the same for the same conversation and call, and
// differs for any other one. That includes a conversation whose beginning was cut off.
func (a *Answer) freshID(index, n int) string {
	if a.digest == nil {
		asked, _ := json.Marshal(a.asked) // messages always encode
		sum := sha256.Sum256(asked)
		a.digest = sum[:]
	}
	return madeID(a.digest, fmt.Appendf(nil, "%d %d", index, n))
}

// Extend adds to the arguments of a call.
func (a *Answer) Extend(index int, piece string) error {
	if piece == "" {
		return nil
	}
	if err := a.Keep(len(piece)); err != nil {
		return err
	}
	a.calls[index].arguments.WriteString(piece)
	a.onDelta(llm.Delta{Call: &llm.CallDelta{Index: index, Arguments: llm.Arguments(piece)}})
	return nil
}

// Hold counts n bytes of a call whose name has not arrived.
func (a *Answer) Hold(n int) error { return a.Keep(n + callSize) }

// Keep counts n bytes that the answer stores. It returns [ErrTooMuch] beyond [MaxKept].
func (a *Answer) Keep(n int) error {
	if a.kept += n; a.kept > MaxKept {
		return fmt.Errorf("%w: over %d bytes", ErrTooMuch, MaxKept)
	}
	return nil
}

// Calls is the number of calls.
func (a *Answer) Calls() int { return len(a.calls) }

// Message returns the collected message.
func (a *Answer) Message() llm.Message {
	m := llm.Message{Role: llm.RoleAssistant, Text: a.text.String()}
	for _, c := range a.calls {
		m.Calls = append(m.Calls, llm.ToolCall{ID: c.id, Name: c.name, Arguments: llm.Arguments(c.arguments.String())})
	}
	return m
}
