package llmtest

import (
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Deltas adds up the pieces of a streamed answer. Its zero value is ready to use.
type Deltas struct {
	text  string
	calls []llm.ToolCall
	err   error
	// Restarts counts how often the answer started again.
	Restarts int
}

// Add is the onDelta to pass to Generate.
func (d *Deltas) Add(delta llm.Delta) {
	if delta.Restart {
		d.text, d.calls = "", nil
		d.Restarts++
	}
	d.text += delta.Text
	switch c := delta.Call; {
	case c == nil:
	case c.Index == len(d.calls):
		if c.ID == "" || c.Name == "" {
			d.fail("the first piece of call %d bears id %q and name %q", c.Index, c.ID, c.Name)
		}
		d.calls = append(d.calls, llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	case c.Index < 0 || c.Index > len(d.calls):
		d.fail("a piece of call %d after %d calls", c.Index, len(d.calls))
	default:
		if c.ID != "" || c.Name != "" {
			d.fail("a later piece of call %d bears id %q and name %q", c.Index, c.ID, c.Name)
		}
		d.calls[c.Index].Arguments += c.Arguments
	}
}

func (d *Deltas) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// Message returns the streamed message. The error names the first piece that breaks the contract of
// llm.Model.
func (d *Deltas) Message() (llm.Message, error) {
	return llm.Message{Role: llm.RoleAssistant, Text: d.text, Calls: d.calls}, d.err
}
