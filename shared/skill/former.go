package skill

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// renamed maps former argument names to their present ones. Former names in snake case are not
// listed: [nameOfNow] converts them.
var renamed = map[string]string{"words": "q"}

// shape is the part of a JSON Schema that declares names.
type shape struct {
	Properties map[string]shape `json:"properties"`
	Items      *shape           `json:"items"`
}

// current returns the arguments with their present names. Journals, plans, approvals and
// automations of an earlier release hold a built-in skill's arguments under names in snake case.
func (s *Skill) current(arguments json.RawMessage) json.RawMessage {
	if s.Kind != Builtin || !bytes.ContainsRune(arguments, '_') && !bytes.Contains(arguments, []byte(`"words"`)) {
		return arguments
	}
	var of shape
	var given map[string]any
	if json.Unmarshal(s.Parameters, &of) != nil || jsonscan.Decode(arguments, &given) != nil || !of.rename(given) {
		return arguments
	}
	raw, err := json.Marshal(given)
	if err != nil { // can't happen: the value came from JSON
		return arguments
	}
	return raw
}

// rename replaces names that the schema does not declare with their present names, if the schema
// declares those. It changes v in place and reports whether it renamed anything.
func (s shape) rename(v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			changed = s.Items != nil && s.Items.rename(e) || changed
		}
	case map[string]any:
		for name, value := range v {
			now := name
			if _, known := s.Properties[name]; !known {
				now = nameOfNow(name)
			}
			of, known := s.Properties[now]
			if _, twice := v[now]; known && now != name && !twice {
				v[now], changed = value, true
				delete(v, name)
			}
			changed = known && of.rename(value) || changed
		}
	}
	return changed
}

func nameOfNow(name string) string {
	if now, ok := renamed[name]; ok {
		return now
	}
	head, rest, _ := strings.Cut(name, "_")
	for part := range strings.SplitSeq(rest, "_") {
		if part != "" {
			head += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return head
}

// TakeBack calls Undo for a call that this release or an earlier one made. Undo must not be nil.
func (s *Skill) TakeBack(ctx context.Context, tx *db.Tx, arguments, result json.RawMessage) (bool, error) {
	var was map[string]json.RawMessage
	if json.Unmarshal(result, &was) == nil {
		now := make(map[string]json.RawMessage, len(was))
		for name, value := range was {
			now[nameOfNow(name)] = value
		}
		if raw, err := json.Marshal(now); err == nil {
			result = raw
		}
	}
	return s.Undo(ctx, tx, s.current(arguments), result)
}
