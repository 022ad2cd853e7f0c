package bedrock

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// maxName is how long a name or an id may be.
const maxName = 64

// taken reports whether Bedrock takes s as a name or an id.
func taken(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, foreign) < 0
}

// foreign reports whether r may not stand in a name or an id.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// toolName is a name that Bedrock takes. Only a name that the model made up needs
// another.
func toolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if foreign(r) {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), maxName)]
}

// ids gives each call of the messages an id that Bedrock takes: its own where it
// does.
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

// unique gives the calls of an answer ids that the conversation does not have yet.
// Those of Bedrock's models nearly always are such.
type unique map[string]bool

// callsOf are the ids of the calls in messages.
func callsOf(messages []llm.Message) unique {
	out := unique{"": true}
	for _, m := range messages {
		for _, c := range m.Calls {
			out[c.ID] = true
		}
	}
	return out
}

// id is the id for a call that came with one.
func (u unique) id(id string) string {
	for n := len(u); u[id]; n++ {
		id = fmt.Sprintf("call_%d", n)
	}
	u[id] = true
	return id
}
