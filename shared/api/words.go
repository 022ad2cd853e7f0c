package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// maxTitle bounds a title that is the beginning of a message, in characters.
const maxTitle = 80

// titleOf says for people what an execution works on: the title of its objective, the
// name of its automation, the first words of what it was told; else the skill that it
// runs, or its task.
func titleOf(e execution.Execution) string {
	var about struct{ Title, Name, Message, Skill, Task string }
	if json.Unmarshal(e.Input, &about) != nil {
		return ""
	}
	title := strings.Join(strings.Fields(cmp.Or(about.Title, about.Name, about.Message, about.Skill, about.Task)), " ")
	if r := []rune(title); len(r) > maxTitle {
		return string(r[:maxTitle-1]) + "…"
	}
	return title
}

// inputOf is an execution's input with our own keys in camelCase. What a caller gave
// comes back as it was given: the whole input of executions that others begin, and what
// stands within one of ours.
func inputOf(e execution.Execution) json.RawMessage {
	if !ours(e) {
		return e.Input
	}
	return camelKeys(e.Input, func(key string) bool { return key == "event" })
}

// resultOf is an execution's result, in the same way.
func resultOf(e execution.Execution) json.RawMessage {
	if !ours(e) {
		return e.Result
	}
	return camelKeys(e.Result, everywhere)
}

// ours reports whether an execution is of the agent's own surfaces.
func ours(e execution.Execution) bool {
	return e.Surface == trace.Heartbeat || e.Surface == trace.Operate
}

// askedOf is the input of an activity; what people did has our own keys, those of a call
// are as they were given.
func askedOf(e activity.Entry) json.RawMessage {
	if e.SkillID != "" || !strings.Contains(e.Skill, ".") {
		return e.Input
	}
	return camelKeys(e.Input, nil)
}

// outputOf is the output of an activity; a beat's own reports and what people did have
// their keys in camelCase, results of skills are as the skills gave them.
func outputOf(e activity.Entry) json.RawMessage {
	switch {
	case e.SkillID != "":
		return e.Output
	case e.Skill == "heartbeat" || strings.HasPrefix(e.Skill, "heartbeat."):
		return camelKeys(e.Output, everywhere)
	case strings.Contains(e.Skill, "."): // no skill's name has a dot
		return camelKeys(e.Output, nil)
	}
	return e.Output
}

// everywhere has [camelKeys] go into every value.
func everywhere(string) bool { return true }

// camelKeys writes the keys of an object in camelCase, and all keys within the values of
// those for which deep is true; nil: of none. What is no object stays as it is.
func camelKeys(raw json.RawMessage, deep func(key string) bool) json.RawMessage {
	if !bytes.Contains(raw, []byte("_")) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var stored map[string]any
	if d.Decode(&stored) != nil {
		return raw
	}
	told, err := json.Marshal(renamed(stored, deep))
	if err != nil { // it came from JSON
		return raw
	}
	return told
}

func renamed(v any, deep func(key string) bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if deep != nil && deep(key) {
				value = renamed(value, everywhere)
			}
			out[camelCase(key)] = value
		}
		return out
	case []any:
		for i := range v {
			v[i] = renamed(v[i], deep)
		}
	}
	return v
}
