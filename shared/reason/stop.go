package reason

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// Progress is the input of stop conditions.
type Progress struct {
	Steps       int
	ModelCalls  int // of all attempts
	Usage       llm.Usage
	LongestStep time.Duration // of this attempt
}

// Stopped says how a run ends.
type Stopped struct {
	Status execution.Status
	Reason string
}

// A Stop is called before each step. It returns nil if the run continues.
type Stop func(context.Context, Progress) *Stopped

// MaxSteps ends a run as stalled that needs more than n model calls.
func MaxSteps(n int) Stop {
	return func(_ context.Context, p Progress) *Stopped {
		if p.Steps < n {
			return nil
		}
		return &Stopped{execution.Stalled, fmt.Sprintf("the limit of %d steps was reached", n)}
	}
}

// Deadline parks a run if the context's remaining time may be too short for another step: less than
// one and a half times the longest step so far.
func Deadline() Stop {
	return func(ctx context.Context, p Progress) *Stopped {
		deadline, ok := ctx.Deadline()
		if ctx.Err() == nil && (!ok || time.Until(deadline) > p.LongestStep*3/2) {
			return nil
		}
		return &Stopped{execution.Parked, endOf(ctx)}
	}
}

// Wanted parks a run if somebody waits for one of its lanes.
func Wanted(holds ...*lane.Hold) Stop {
	return func(context.Context, Progress) *Stopped {
		for _, h := range holds {
			if by := h.WantedBy(); by != "" {
				return &Stopped{execution.Parked, fmt.Sprintf("%s waits for lane %s", by, h.Lane)}
			}
		}
		return nil
	}
}
