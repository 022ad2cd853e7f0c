package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

const (
	// maxHistory is the most messages of a thread that a turn is told.
	maxHistory = 200
	// bytesPerToken is about how long a token is: messages take half of the model's
	// window at most.
	bytesPerToken = 4
)

// history is what was spoken in the thread, or what the caller says was, with the turn's message
// at its end, and whose words are in it.
func (s *turn) history(ctx context.Context) ([]llm.Message, execution.Trust, error) {
	var spoken []thread.Spoken
	switch {
	case s.Before != nil:
		for _, said := range s.Before {
			spoken = append(spoken, thread.Spoken{Role: said.Role, Body: said.Body})
		}
	case !s.fresh:
		var err error
		if spoken, err = s.Threads.Lately(ctx, s.ws, s.Thread, maxHistory); err != nil {
			return nil, "", err
		}
	}
	left := s.Window * bytesPerToken / 2
	var said []llm.Message // the latest first
	trust := cmp.Or(s.kind.Trust, execution.Trusted)
	add := func(role llm.Role, text string) {
		if n := len(said); n > 0 && said[n-1].Role == role { // roles alternate
			said[n-1].Text = text + "\n\n" + said[n-1].Text
			return
		}
		said = append(said, llm.Message{Role: role, Text: text})
	}
	add(llm.RoleUser, s.Message)
	for _, m := range slices.Backward(spoken) {
		if left -= len(m.Body); s.Window > 0 && left < 0 {
			break
		}
		switch {
		case m.Execution == s.exec.ID:
		case m.Role == thread.User, m.Role == thread.System && s.Before != nil: // of the caller, not ours
			add(llm.RoleUser, m.Body)
		case m.Role == thread.Assistant:
			add(llm.RoleAssistant, m.Body)
			trust = trust.With(trustOf(m.Data))
		}
	}
	slices.Reverse(said)
	if said[0].Role == llm.RoleAssistant {
		said = said[1:]
	}
	return said, trust, nil
}

// trustData is what a message keeps of whose words are in it.
func trustData(trust execution.Trust) json.RawMessage {
	if trust != execution.Untrusted {
		return nil
	}
	return encode(map[string]execution.Trust{"trust": trust})
}

func trustOf(data json.RawMessage) execution.Trust {
	var kept struct {
		Trust execution.Trust `json:"trust"`
	}
	_ = json.Unmarshal(data, &kept) // none: nothing is kept
	return cmp.Or(kept.Trust, execution.Trusted)
}
