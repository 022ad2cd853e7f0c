package heartbeat

import (
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// caps bound what one beat may spend.
type caps struct {
	calls, maxCalls   int
	tokens, maxTokens int64
}

func newCaps(s workspace.Settings) caps {
	return caps{maxCalls: s.BeatModelCalls, maxTokens: s.BeatTokens}
}

func (c *caps) spend(u llm.Usage) {
	c.calls++
	c.tokens += int64(u.TotalTokens())
}

// over says of what the share is used up; empty: there is something left. A beat that
// may make any call may make one in each phase.
func (c *caps) over(share float64) string {
	switch {
	case c.calls >= c.maxCalls:
		return "the beat's model calls are used up"
	case c.tokens >= c.maxTokens:
		return "the beat's tokens are used up"
	case float64(c.calls) >= share*float64(c.maxCalls):
		return "the phase's share of the beat's model calls is used up"
	case float64(c.tokens) >= share*float64(c.maxTokens):
		return "the phase's share of the beat's tokens is used up"
	}
	return ""
}
