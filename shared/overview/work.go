package overview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Phases lists the phases of a beat in their order.
var Phases = []string{"heal", "plan", "automate", "advance", "reflect", "remember"}

const phasePrefix = "heartbeat."

func phaseOf(name string) string { return strings.TrimPrefix(name, phasePrefix) }

// maxTitle is the largest length of a title that is taken from a message, in characters.
const maxTitle = 80

// Title returns for people what the input of an execution is about: the title of the objective, the
// name of the automation, the beginning of the message, the name of the skill, or the task,
// whichever it has first.
func Title(input json.RawMessage) string {
	var about struct{ Title, Name, Message, Skill, Task string }
	if json.Unmarshal(input, &about) != nil {
		return ""
	}
	return titled(cmp.Or(about.Title, about.Name, about.Message, about.Skill, about.Task))
}

// titled returns a text in one line, of the length of a title at most.
func titled(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxTitle {
		return string(r[:maxTitle-1]) + "…"
	}
	return text
}

// Doing says what an execution is at; empty: nothing is known.
func (a At) Doing() string {
	switch {
	case a.Step == nil:
		return ""
	case a.Skill != "":
		return "calls " + a.Skill
	case a.Kind == execution.Model:
		return "answers"
	}
	return "asks the model"
}

// Label says for people what a lane protects.
func (h Hold) Label() string { return cmp.Or(Title(h.Input), LabelOf(h.Lane)) }

// LabelOf says for people what a lane is for, by its name.
func LabelOf(n lane.Name) string {
	kind, of, has := strings.Cut(string(n), ":")
	switch {
	case n == lane.Heartbeat:
		return "The beat"
	case n == lane.Operate:
		return "Talk with the operator"
	case n == lane.Coordinator:
		return "The coordinator's cycle"
	case has && kind == "memory":
		return "Memories of " + of
	case has && kind == "objective":
		return "An objective"
	case has && kind == "automation":
		return "An automation"
	case has && kind == "execution":
		return "A run"
	}
	return string(n)
}

// beatRuns reports whether a beat runs now, under its lane.
func (f *Facts) beatRuns() bool {
	return len(f.Beats) > 0 && f.Beats[0].Status == execution.Running && f.Beats[0].LaneHeld
}

// Phase returns the phase in which the running beat is; empty: no beat runs. What the beat works on
// says it, or else the last phase that has ended.
func (f *Facts) Phase() string {
	if !f.beatRuns() {
		return ""
	}
	for _, r := range f.Running {
		if r.Surface != trace.Heartbeat || r.Subject == lane.Heartbeat {
			continue
		}
		var about struct{ Task string }
		_ = json.Unmarshal(r.Input, &about)
		if slices.Contains(Phases, about.Task) {
			return about.Task
		}
		if _, is := lane.AutomationOf(r.Subject); is {
			return "automate"
		}
	}
	if len(f.Phases) == 0 {
		return Phases[0]
	}
	at := slices.Index(Phases, f.Phases[len(f.Phases)-1].Name)
	return Phases[min(at+1, len(Phases)-1)]
}

// Text says what a phase did.
func (p Phase) Text() string {
	switch {
	case p.Considered == 0:
		return "nothing to do"
	case p.Failed > 0:
		return fmt.Sprintf("%d of %d, %d failed", p.Done, p.Considered, p.Failed)
	}
	return fmt.Sprintf("%d of %d", p.Done, p.Considered)
}

// LastEnded returns when a beat last ended; nil: none has.
func (f *Facts) LastEnded() *time.Time {
	for _, b := range f.Beats {
		if b.Status != execution.Running {
			return &b.Ended
		}
	}
	return nil
}

// NextBeat returns when the next beat is due; nil: it is not known. It follows the slot of the newest
// beat that had one; without one, slots are multiples of the interval.
func (f *Facts) NextBeat() *time.Time {
	if f.Every <= 0 {
		return nil
	}
	next := f.Now.Truncate(f.Every).Add(f.Every)
	for _, b := range f.Beats {
		if at, ok := slotTime(b.Slot); ok {
			next = at.Add(f.Every)
			if late := f.Now.Sub(next); late >= 0 {
				next = next.Add(late.Truncate(f.Every) + f.Every)
			}
			break
		}
	}
	if f.PutOff != nil && f.PutOff.Before(next) {
		next = *f.PutOff
	}
	next = next.UTC()
	return &next
}

// slotTime returns the time in the key of a slot.
func slotTime(slot string) (time.Time, bool) {
	parts := strings.SplitN(slot, ":", 3)
	if len(parts) < 3 {
		return time.Time{}, false
	}
	at, err := time.Parse("2006-01-02T15:04Z", parts[2])
	return at, err == nil
}

// Object is what the agent works on.
type Object struct{ Kind, ID, Title, Agent string }

// Object returns what is being worked on: the newest run that is about something; nil: nothing is.
func (f *Facts) Object() *Object {
	for _, r := range f.Running {
		if r.Subject == lane.Heartbeat {
			continue
		}
		o := Object{Kind: "execution", ID: r.ID, Title: cmp.Or(Title(r.Input), "a run"), Agent: r.Agent}
		if id, is := lane.ObjectiveOf(r.Subject); is {
			o.Kind, o.ID = "objective", id
		} else if id, is := lane.AutomationOf(r.Subject); is {
			o.Kind, o.ID = "automation", id
		} else if kind, id, is := strings.Cut(string(r.Subject), ":"); is && kind == "task" {
			o.Kind, o.ID = "task", id
		}
		return &o
	}
	if f.Task != nil {
		return &Object{Kind: "task", ID: f.Task.ID, Title: f.Task.Title, Agent: cmp.Or(f.Task.Agent, "an agent")}
	}
	return nil
}
