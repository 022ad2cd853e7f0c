package bedrock

import (
	"fmt"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// maxName is the longest name or id that Bedrock accepts.
const maxName = 64

// taken reports whether Bedrock accepts s as a name or an id.
func taken(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, foreign) < 0
}

// foreign reports whether r is not allowed in a name or an id.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// toolName returns a name that Bedrock accepts. Only names that the model invented are changed.
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
