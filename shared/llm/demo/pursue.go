package demo

import (
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// maxRetries is how often a failed call is retried with other arguments.
const maxRetries = 2

// act is a tool to call. Its arguments are completed to satisfy the tool's schema.
type act struct {
	tool string
	args map[string]any
}

// pursue returns the next move towards a. After a has succeeded, it returns nil and the exchange
// that did it. The next move is a call, a corrected call after a failed one, or a final text. It is
// a final text if nothing better is left to try, or if a person must approve the call first.
func (s situation) pursue(a act) (*move, exchange) {
	tool, ok := s.offered(a.tool)
	if !ok {
		return stop("I stopped: %s is not among the tools I have here.", short(a.tool, 64)), exchange{}
	}
	tried := []string{tool.Name}
	var failed *exchange // of the tool that is tried now
	failures := 0
	for _, e := range s.exchanges {
		if !sameName(e.call.Name, tool.Name) {
			continue
		}
		if e.refused != "" {
			return stop("I stopped: the call of %s %s", tool.Name, short(e.refused, 300)), exchange{}
		}
		if !e.result.IsError {
			if waits(e.result.Content) {
				m := say("I stopped: %s waits for a person's approval.", tool.Name)
				return &m, exchange{}
			}
			return nil, e
		}
		failures++
		failed = &e
		if unknownTool().MatchString(e.result.Content) {
			other, ok := s.similarTool(tool.Name, tried)
			if !ok {
				return giveUp(e), exchange{}
			}
			tool, tried, failed = other, append(tried, other.Name), nil
		}
	}
	f := filler{s}
	if failed == nil {
		if failures > maxRetries {
			return stop("I stopped: none of %s worked.", strings.Join(tried, ", ")), exchange{}
		}
		return call(tool.Name, f.complete(tool, a.args)), exchange{}
	}
	again := call(tool.Name, f.repair(tool, failed.call.Arguments, failed.result.Content, a.args))
	if failures > maxRetries || sameJSON(again.call.Arguments, failed.call.Arguments) {
		return giveUp(*failed), exchange{}
	}
	return again, exchange{}
}

func stop(format string, args ...any) *move {
	m := say(format, args...)
	m.failed = true
	return &m
}

func giveUp(e exchange) *move {
	return stop("I stopped: %s failed, and I know no better way to call it. It said: %s",
		short(e.call.Name, 64), short(e.result.Content, 300))
}

func call(tool string, args map[string]any) *move {
	raw, err := json.Marshal(args)
	if err != nil { // can't happen: the values come from JSON or are simple
		raw = []byte("{}")
	}
	m := say("I call %s.", tool)
	m.call = &llm.ToolCall{Name: tool, Arguments: llm.Arguments(raw)}
	return &m
}

// unknownTool matches an error about the tool's name rather than its arguments.
var unknownTool = pattern.New(
	`(?i)\b(?:unknown|no such|no) (?:tool|skill)\b|\b(?:tool|skill)\b[^.\n]{0,80}\b(?:does not|doesn['’]t|not) (?:exist|found|known|available)\b`)

// similarTool returns the offered tool with the most similar name. The name must be similar enough,
// and must not have been tried.
func (s situation) similarTool(name string, tried []string) (best llm.Tool, ok bool) {
	least := len(name)/4 + 1
	for _, t := range s.tools {
		seen := false
		for _, n := range tried {
			seen = seen || sameName(n, t.Name)
		}
		if seen || t.Name == "" {
			continue
		}
		if d := distance(name, t.Name); d < least {
			best, ok, least = t, true, d
		}
	}
	return best, ok
}

// waits reports whether a result says that the call waits for an approval. The result is JSON with
// a status, or a sentence. A longer text is not searched, because it may be a list in which other
// calls wait.
func waits(result string) bool {
	if json.Valid([]byte(result)) {
		return decodeObject(result)["status"] == "pending_approval"
	}
	text := strings.ToLower(result)
	return len(text) < 400 && strings.Contains(text, "approv") &&
		(strings.Contains(text, "wait") || strings.Contains(text, "pending"))
}
