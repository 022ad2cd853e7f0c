package reason

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Edits holds the changes of a fork to the part of the journal that it keeps.
type Edits struct {
	System  string            // another system prompt
	Message string            // a further message of the user, before the step
	Results map[string]string // other contents of results, by call such as "3.1"
}

// These errors say that the request for a fork is invalid.
var (
	ErrNoStep   = errors.New("the execution has no such step")
	ErrOpenStep = errors.New("a call before the step has no result: its effect would be doubled")
	ErrNoCall   = errors.New("no result of such a call is kept")
)

// Prefix returns the part of a journal that a fork at a step keeps, with the edits: all entries
// before the step, which the model is asked for again.
func Prefix(entries []execution.Entry, step int, edits Edits) ([]execution.Entry, error) {
	if step < 1 || len(entries) == 0 || step > entries[len(entries)-1].Step+1 {
		return nil, fmt.Errorf("fork at step %d: %w", step, ErrNoStep)
	}
	s := &state{}
	var kept []execution.Entry
	found := 0
	for _, e := range entries {
		if e.Step >= step && e.Kind != execution.Input {
			break
		}
		var err error
		switch e.Kind {
		case execution.Input:
			e.Body, err = edited(e.Body, func(b *inputBody) { b.System = cmp.Or(edits.System, b.System) })
		case execution.Result:
			content, ok := edits.Results[e.Call]
			if !ok {
				break
			}
			found++
			e.Body, err = edited(e.Body, func(b *resultBody) { b.Result.Content, b.Digest, b.Times = content, "", 0 })
		}
		if err != nil {
			return nil, fmt.Errorf("fork entry %d: %w", e.Seq, err)
		}
		e.Seq = len(kept) + 1
		if err := s.fold(e); err != nil {
			return nil, fmt.Errorf("fork entry %d: %w", e.Seq, err)
		}
		kept = append(kept, e)
	}
	if found < len(edits.Results) {
		return nil, fmt.Errorf("fork at step %d: %w", step, ErrNoCall)
	}
	if len(s.pending) > 0 {
		return nil, fmt.Errorf("fork at step %d: %w", step, ErrOpenStep)
	}
	if edits.Message != "" {
		e, err := s.add(execution.Input, execution.Succeeded, "", "",
			inputBody{Messages: []llm.Message{{Role: llm.RoleUser, Text: edits.Message}}})
		if err != nil {
			return nil, err
		}
		kept = append(kept, e)
	}
	return kept, nil
}

func edited[B any](raw json.RawMessage, edit func(*B)) (json.RawMessage, error) {
	var b B
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	edit(&b)
	return json.Marshal(b)
}

// StartOf returns the system prompt and the skills with which a recorded run began, for callers
// that resume a run begun by another process.
func StartOf(entries []execution.Entry) (system string, skills []string, err error) {
	s, err := foldEntries(entries, 0)
	if err != nil {
		return "", nil, err
	}
	return s.system, s.skills, nil
}
