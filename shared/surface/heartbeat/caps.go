package heartbeat

import (
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// caps bound what one beat may spend.
type caps struct {
	calls, maxCalls   int
	tokens, maxTokens int64
	money, maxMoney   int64 // in millionths of a dollar; 0: it is not capped
}

func newCaps(s workspace.Settings) caps {
	c := caps{maxCalls: s.BeatModelCalls, maxTokens: s.BeatTokens, maxMoney: s.BeatMicroUSD}
	if s.DayTokens == 0 { // no budget would say so: a day of none is not made
		c.maxTokens = 0
	}
	return c
}

func (c *caps) spend(u llm.Usage) {
	c.calls++
	c.tokens += int64(u.TotalTokens())
	c.money += u.MicroUSD
}

// over says of what the share is used up; empty: there is something left. A beat that
// may make any call may make one in each phase.
func (c *caps) over(share float64) string {
	switch {
	case c.calls >= c.maxCalls:
		return "the beat's model calls are used up"
	case c.tokens >= c.maxTokens:
		return "the beat's tokens are used up"
	case c.maxMoney > 0 && c.money >= c.maxMoney:
		return "the beat's money is used up"
	case float64(c.calls) >= share*float64(c.maxCalls):
		return "the phase's share of the beat's model calls is used up"
	case float64(c.tokens) >= share*float64(c.maxTokens):
		return "the phase's share of the beat's tokens is used up"
	case c.maxMoney > 0 && float64(c.money) >= share*float64(c.maxMoney):
		return "the phase's share of the beat's money is used up"
	}
	return ""
}
