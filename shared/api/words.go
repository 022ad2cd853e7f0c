package api

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// titleOf describes for people what an execution works on.
func titleOf(e execution.Execution) string { return overview.Title(e.Input) }

// inputOf returns an execution's input with our own keys in camelCase. It does not change what a
// client gave: the whole input of an external execution, and the values within our own inputs.
func inputOf(e execution.Execution) json.RawMessage {
	if !ours(e) {
		return e.Input
	}
	return camelKeys(e.Input, func(key string) bool { return key == "event" })
}

// resultOf returns an execution's result, converted in the same way.
func resultOf(e execution.Execution) json.RawMessage {
	if !ours(e) {
		return e.Result
	}
	return camelKeys(e.Result, everywhere)
}

// ours reports whether an execution belongs to the agent's own surfaces.
func ours(e execution.Execution) bool {
	switch e.Surface {
	case trace.Heartbeat, trace.Operate, trace.Chat, trace.Webhook, trace.Worker:
		return true
	}
	return false
}

// askedOf returns the input of an activity. The input of a person's action has our own keys, in
// camelCase. The input of a call is returned unchanged.
func askedOf(e activity.Entry) json.RawMessage {
	if e.SkillID != "" || !strings.Contains(e.Skill, ".") {
		return e.Input
	}
	return camelKeys(e.Input, nil)
}

// outputOf returns the output of an activity. Reports of heartbeats and outputs of persons' actions
// get keys in camelCase. Results of skills are returned unchanged.
func outputOf(e activity.Entry) json.RawMessage {
	switch {
	case e.SkillID != "":
		return e.Output
	case e.Skill == "heartbeat" || strings.HasPrefix(e.Skill, "heartbeat."):
		return camelKeys(e.Output, everywhere)
	case strings.Contains(e.Skill, "."): // a skill's name has no dot
		return camelKeys(e.Output, nil)
	}
	return e.Output
}

// everywhere makes [camelKeys] convert keys at every depth.
func everywhere(string) bool { return true }

// camelKeys converts the keys of an object to camelCase. It also converts all keys within the
// values for whose keys deep returns true; deep may be nil. It returns anything but an object
// unchanged.
func camelKeys(raw json.RawMessage, deep func(key string) bool) json.RawMessage {
	if !bytes.Contains(raw, []byte("_")) {
		return raw
	}
	var stored map[string]any
	if jsonscan.Decode(raw, &stored) != nil {
		return raw
	}
	told, err := json.Marshal(renamed(stored, deep))
	if err != nil { // cannot happen: the values were decoded from JSON
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
