package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// stalled returns why a run makes no progress, or "" if it does.
func (s *facts) stalled(job Job) string {
	why := s.beyond(job.Retries)
	if why == "" && s.looped.times > 0 {
		why = fmt.Sprintf("the same call of %s brought the same result %d times in a row", s.looped.skill, s.looped.times)
	}
	return why
}

// beyond returns which impossible calls were tried too often, or "" if there are none.
func (s *facts) beyond(retries int) string {
	if s.strikes > retries {
		return fmt.Sprintf("%d answers in a row asked for calls that could not be made, the last to %s", s.strikes, clip(s.struck.Tool, maxName))
	}
	for _, tool := range slices.Sorted(maps.Keys(s.misses)) {
		if n := s.misses[tool].times; n > retries {
			return fmt.Sprintf("%d answers asked for calls of %s that could not be made", n, clip(tool, maxName))
		}
	}
	return ""
}

// cut reports whether the last answer was cut off. Its last call may be incomplete then, even if it
// looks complete.
func (s *facts) cut() bool { return s.ending == llm.StopMaxTokens || s.ending == llm.StopRefusal }

// saysNothing reports whether an answer without calls counts as missing: it is empty, or it
// announces a call and has none. While calls wait for a person, an empty answer is fine.
func (s *facts) saysNothing() bool {
	if len(s.waits) > 0 {
		return false
	}
	silent := strings.TrimSpace(s.messages[len(s.messages)-1].Text) == ""
	return s.ending == llm.StopToolUse || silent && !s.cut() && s.ending != llm.StopOther
}

// askedAgain is the text that the model gets once after such an answer.
const askedAgain = "(A note of Lanekeeper's, not of the person.) Your answer was empty, or announced a call of a tool " +
	"and had none. Make the call, or say what came of the work."

// CutOff is the reason of a completed run whose answer is incomplete.
const CutOff = "the answer was cut off at the limit of its length"

// NoRoom is how the reason of a stalled run begins whose last answer was cut off before its first word, as the
// thinking of a model can use up all tokens.
const NoRoom = "the model reached the limit of an answer's length before it had said anything"

// ended returns the outcome of a run whose last answer has no calls.
func (s *facts) ended() Outcome {
	silent := strings.TrimSpace(s.messages[len(s.messages)-1].Text) == ""
	switch {
	case s.silences > 0 && s.ending == llm.StopToolUse:
		return s.outcome(execution.Stalled, "the model announced a call, asked again, and named none")
	case s.silences > 0:
		return s.outcome(execution.Stalled, "the model ended its answer without a word, asked again")
	case s.ending == llm.StopRefusal:
		return s.outcome(execution.Failed, "the model declined to answer")
	case s.ending == llm.StopOther && silent: // with a text, it is a server that has its own stop reasons
		return s.outcome(execution.Failed, "the model broke off its answer, and did not say why")
	case s.ending == llm.StopMaxTokens && silent:
		return s.outcome(execution.Stalled, NoRoom)
	case s.ending == llm.StopMaxTokens:
		return s.outcome(execution.Completed, CutOff)
	}
	return s.outcome(execution.Completed, "")
}

// maxSame is how often in a row the same call may have the same result. The model is told so then,
// and the next repetition ends the run.
const maxSame = 3
