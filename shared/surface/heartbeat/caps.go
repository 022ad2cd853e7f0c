package heartbeat

import (
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// caps limit what one beat may spend.
type caps struct {
	calls, maxCalls   int
	tokens, maxTokens int64
	money, maxMoney   int64 // in millionths of a dollar; 0: no cap
}

func newCaps(s workspace.Settings) caps {
	c := caps{maxCalls: s.BeatModelCalls, maxTokens: s.BeatTokens, maxMoney: s.BeatMicroUSD}
	// No budget is created for a day of 0 tokens, so the beat's own cap enforces it.
	if s.DayTokens == 0 {
		c.maxTokens = 0
	}
	return c
}

func (c *caps) spend(u llm.Usage) {
	c.calls++
	c.tokens += int64(u.TotalTokens())
	c.money += u.MicroUSD
}

// over returns which cap, or which share of a cap, is used up; empty: none. Each phase's share
// allows at least one call, unless the beat's own cap is used up.
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
