package bedrock

import (
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// taken reports whether Bedrock accepts s as a name or an id.
func taken(s string) bool { return s != "" && wire.ToolName(s) == s }

// ids maps the id of each call of the messages to an id that Bedrock accepts. It keeps valid ids.
func ids(messages []llm.Message) map[string]string {
	out := map[string]string{}
	var others []string
	see := func(id string) {
		if _, known := out[id]; known {
			return
		}
		if out[id] = id; !taken(id) {
			others = append(others, id)
		}
	}
	for _, m := range messages {
		for _, c := range m.Calls {
			see(c.ID)
		}
		for _, r := range m.Results {
			see(r.CallID)
		}
	}
	n := 0
	for _, id := range others {
		for used := true; used; {
			n++
			out[id] = fmt.Sprintf("call_%d", n)
			_, used = out[out[id]]
		}
	}
	return out
}

// unique gives the calls of an answer ids that are new in the conversation. The ids of Bedrock's
// models nearly always are.
type unique map[string]bool

// callsOf returns the ids of the calls in messages.
func callsOf(messages []llm.Message) unique {
	out := unique{"": true}
	for _, m := range messages {
		for _, c := range m.Calls {
			out[c.ID] = true
		}
	}
	return out
}

// id returns the id to use for a call that arrived with the given id.
func (u unique) id(id string) string {
	for n := len(u); u[id]; n++ {
		id = fmt.Sprintf("call_%d", n)
	}
	u[id] = true
	return id
}
