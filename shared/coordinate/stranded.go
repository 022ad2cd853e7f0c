package coordinate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/task"
)

// Stranded says of a queue of due tasks why no agent can take them, now or when it has a free place, and what
// a person can do about it.
type Stranded struct {
	Needs string // the capabilities, as a text that differs for different ones
	Why   string
	Next  string
}

// Stranded adds to a batch the statements that tell which queues of due tasks no agent can take, by the rules that
// the cycle follows. The returned function must be called after the batch was sent. It returns nil for a queue that
// some agent can take, and for every queue while the workspace is stopped. Budgets are not looked at.
func (c *Coordinator) Stranded(b *db.Batch) func(queue string) *Stranded {
	var v view
	c.reads(b, &v)
	b.Each(queues(&v.queues), c.q.Queues)
	b.Each(workers(&v.all), c.q.Agents, firstAgent, lastAgent)
	return func(name string) *Stranded {
		at := slices.IndexFunc(v.queues, func(q queue) bool { return q.name == name })
		if at < 0 || v.halted {
			return nil
		}
		return v.stranded(v.queues[at].needs)
	}
}

// stranded says why no agent can take tasks with these needs; nil: one can.
func (v view) stranded(needs []string) *Stranded {
	s := &Stranded{Needs: db.Encode(needs)}
	there, able := 0, 0
	var first *Obstacle
	for i := range v.all {
		w := &v.all[i]
		if w.Status == agent.Terminated {
			continue
		}
		there++
		if !w.can(needs) {
			continue
		}
		able++
		o := w.obstacle(v.circuits, false)
		if o == nil || o.Code == task.WaitsForCapacity {
			return nil
		}
		if first == nil {
			first = o
		}
	}
	with := ""
	if len(needs) > 0 {
		with = "the capability " + strings.Join(needs, " and ")
	}
	switch {
	case there == 0 && with != "":
		s.Why, s.Next = "there is no agent", "register one with "+with
	case there == 0:
		s.Why, s.Next = "there is no agent", "register one, such as the built-in worker, whose spawner is builtin"
	case able == 0:
		s.Why, s.Next = "no agent has "+with, "register one that has it, or add it to one"
	case able == 1:
		s.Why, s.Next = first.Why, first.Next
	default:
		s.Why, s.Next = fmt.Sprintf("none of the %d agents that can do it gets tasks now; %s", able, first.Why), first.Next
	}
	return s
}
