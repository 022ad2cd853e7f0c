package reason

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// stalled says why a run gets nowhere; empty: it does.
func (s *facts) stalled(job Job) string {
	why := s.beyond(job.Retries)
	if why == "" && s.looped.times > 0 {
		why = fmt.Sprintf("the same call of %s brought the same result %d times in a row", s.looped.skill, s.looped.times)
	}
	return why
}

// beyond says which calls that can't be made were tried too often; empty: none was.
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

// cut reports whether the last answer broke off: its last call is not what the model
// meant, even where it looks whole.
func (s *facts) cut() bool { return s.ending == llm.StopMaxTokens || s.ending == llm.StopRefusal }

// saysNothing reports whether an answer without calls is none: it ends in silence, or
// announces a call and has none. While calls wait for a person there is nothing to say.
func (s *facts) saysNothing() bool {
	if len(s.waits) > 0 {
		return false
	}
	silent := strings.TrimSpace(s.messages[len(s.messages)-1].Text) == ""
	return s.ending == llm.StopToolUse || silent && !s.cut() && s.ending != llm.StopOther
}

// askedAgain is what the model is told of such an answer, once.
const askedAgain = "(A note of Lanekeeper's, not of the person.) Your answer was empty, or announced a call of a tool and had none. Make the call, or say what came of the work."

// CutOff is the reason of a completed run whose answer is not whole.
const CutOff = "the answer was cut off at the limit of its length"

// ended is the end of a run whose last answer asks for no call.
func (s *facts) ended() Outcome {
	silent := strings.TrimSpace(s.messages[len(s.messages)-1].Text) == ""
	switch {
	case s.silences > 0 && s.ending == llm.StopToolUse:
		return s.outcome(execution.Stalled, "the model announced a call, asked again, and named none")
	case s.silences > 0:
		return s.outcome(execution.Stalled, "the model ended its answer without a word, asked again")
	case s.ending == llm.StopRefusal:
		return s.outcome(execution.Failed, "the model declined to answer")
	case s.ending == llm.StopOther && silent: // with words it is a server with names of its own
		return s.outcome(execution.Failed, "the model broke off its answer, and did not say why")
	case s.ending == llm.StopMaxTokens && silent:
		return s.outcome(execution.Stalled, "the model reached the limit of an answer's length before it had said anything")
	case s.ending == llm.StopMaxTokens:
		return s.outcome(execution.Completed, CutOff)
	}
	return s.outcome(execution.Completed, "")
}

// maxSame is how often in a row the same call may bring the same result: then the
// model is told so, and its next repetition ends the run.
const maxSame = 3
