package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Answer adds up an answer from its pieces and passes each on at once.
type Answer struct {
	onDelta func(llm.Delta) // nil: nobody listens
	asked   []llm.Message   // what ids of our own are made of
	taken   map[string]bool // the ids of the conversation and of this answer
	text    strings.Builder
	calls   []*call
	kept    int // bytes
}

type call struct {
	id, name  string
	arguments strings.Builder
}

// callSize is what a call counts beside its texts, in bytes.
const callSize = 1 << 10

// ErrTooMuch is the error of an answer beyond [MaxKept].
var ErrTooMuch = errors.New("the answer is too long")

// NewAnswer begins an answer to a request. onDelta may be nil.
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

// Think passes on that a piece has come which is not for us, such as of a thought.
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

// Begin adds a call and returns its index. An id that is empty, or that another
// call of the conversation has, is replaced by one of our own.
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

// freshID is the same for the same conversation and call, and another for any other:
// also for one whose beginning has been cut off.
func (a *Answer) freshID(index, n int) string {
	asked, _ := json.Marshal(a.asked) // messages can be encoded
	return madeID(asked, fmt.Appendf(nil, "%d %d", index, n))
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

// Hold counts n bytes of a call that waits for its name.
func (a *Answer) Hold(n int) error { return a.Keep(n + callSize) }

// Keep counts n bytes that are kept of the answer.
func (a *Answer) Keep(n int) error {
	if a.kept += n; a.kept > MaxKept {
		return fmt.Errorf("%w: over %d bytes", ErrTooMuch, MaxKept)
	}
	return nil
}

// Calls is how many calls there are.
func (a *Answer) Calls() int { return len(a.calls) }

// Message is what has been added up.
func (a *Answer) Message() llm.Message {
	m := llm.Message{Role: llm.RoleAssistant, Text: a.text.String()}
	for _, c := range a.calls {
		m.Calls = append(m.Calls, llm.ToolCall{ID: c.id, Name: c.name, Arguments: llm.Arguments(c.arguments.String())})
	}
	return m
}
