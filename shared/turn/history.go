package turn

import (
	"cmp"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/thread"
)

const (
	// maxHistory is the largest number of a thread's messages in a turn's context.
	maxHistory = 200
	// bytesPerToken is an estimate. The messages may take half of the model's context window.
	bytesPerToken = 4
	// maxInstructed is how many bytes instructions and message may have together for each token of the window: they take
	// at most what a request may take of it.
	maxInstructed = 3
)

// sizeOf returns the bytes of messages.
func sizeOf(all []Said) (n int) {
	for _, one := range all {
		n += len(one.Body)
	}
	return n
}

// together returns what was said with what is not sent yet. Answers stand behind the messages that they answer, also
// where they were sent after others had come.
func together(spoken, unsent []thread.Spoken) []thread.Spoken {
	all := make([]thread.Spoken, 0, len(spoken)+len(unsent))
	for i, m := range slices.Concat(spoken, unsent) {
		if i >= len(spoken) && slices.ContainsFunc(spoken, func(sent thread.Spoken) bool { return sent.ID == m.ID }) {
			continue // it was sent meanwhile
		}
		at := len(all)
		for j := at; m.Role == thread.Assistant && m.Execution != "" && j > 0; j-- {
			if all[j-1].Execution == m.Execution {
				at = j
				break
			}
		}
		all = slices.Insert(all, at, m)
	}
	return all
}

// history returns the messages for the model, with the turn's message at the end, and their trust.
// They are what was spoken in the thread, or come from the caller if the turn has Before. Instructions come first, and
// leave the older messages less room.
func (s *turn) history(spoken []thread.Spoken) ([]llm.Message, execution.Trust) {
	instructions, told := s.Before[:s.Leading], s.Before[s.Leading:]
	if s.Adds {
		for _, one := range instructions { // of a turn before
			spoken = slices.DeleteFunc(spoken, func(m thread.Spoken) bool { return m.Role == one.Role && m.Body == one.Body })
		}
		spoken = slices.DeleteFunc(spoken, func(m thread.Spoken) bool { return m.Execution == s.exec.ID || m.Role == thread.System })
		told = unseen(told, spoken)
	}
	for _, said := range told {
		spoken = append(spoken, thread.Spoken{Role: said.Role, Body: said.Body})
	}
	left := s.Window*bytesPerToken/2 - sizeOf(instructions)
	var said []llm.Message // newest first
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
		case m.Role == thread.User, m.Role == thread.System && s.Before != nil: // instructions of the caller
			add(llm.RoleUser, m.Body)
		case m.Role == thread.Assistant:
			add(llm.RoleAssistant, m.Body)
			trust = trust.With(m.Trust())
		}
	}
	for _, one := range slices.Backward(instructions) {
		add(llm.RoleUser, one.Body)
	}
	slices.Reverse(said)
	if said[0].Role == llm.RoleAssistant {
		said = said[1:]
	}
	return said, trust
}
