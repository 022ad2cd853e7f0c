package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/halt"
)

// State is what the agent is in.
type State string

// The states.
const (
	Working    State = "working"
	Idle       State = "idle"
	Stopped    State = "stopped"
	NotWorking State = "not_working"
)

// Tone says how good or bad something is.
type Tone string

// The tones.
const (
	Done   Tone = "done"
	Warn   Tone = "warn"
	Failed Tone = "failed"
)

// The limits of the rules.
const (
	minCalls    = 20 // that a low rate of success counts from
	failedBelow = 80 // per cent
	warnBelow   = 95 // per cent
	wantedFor   = time.Minute
	waitsFor    = 24 * time.Hour  // an approval
	cyclesFor   = 2 * time.Minute // the coordinator
)

// A Line is one of the six lines of the verdict.
type Line struct {
	Key          string
	Tone         Tone
	Text, Detail string
	Link         string // a path of the API's resource; empty: none
}

// Verdict says whether the agent works.
type Verdict struct {
	Tone  Tone
	Text  string
	Lines []Line // always six, in the same order
}

// Verdict decides whether the agent works. It does not work when a kill switch of the workspace is
// on, no beat ended within two intervals, the circuits of all models that failed are open with no answer of a model since, or fewer than 80 % of
// at least 20 calls of the last hour succeeded. It works with a warning for each heal that is
// active, lane that has been wanted for over a minute, budget that advises THROTTLE or STOP, approval
// that is older than a day, agent that is DEGRADED or ERROR, for fewer than 95 % of calls, for a kill switch
// of the agent that beats work as or of a model, and for a coordinator with agents that has not cycled for two minutes.
// Warnings of one kind count once.
func (f *Facts) Verdict() Verdict {
	v := Verdict{Tone: Done, Lines: []Line{f.calls(), f.beats(), f.lanes(), f.skills(), f.budgets(), f.coordinator()}}
	warnings := 0
	for _, l := range v.Lines {
		if l.Tone == Failed {
			v.Tone = Failed
		}
		if l.Tone == Warn {
			warnings++
		}
	}
	if v.Lines[0].Tone == Warn && f.lowSuccess() && f.waitsLong() {
		warnings++
	}
	if v.Lines[5].Tone == Warn && f.coordinatorSilent() && f.UnwellCount > 0 {
		warnings++
	}
	switch {
	case f.Stop() != nil:
		v.Text = "It is stopped"
	case v.Tone == Failed:
		v.Text = "It does not work"
	case warnings > 0:
		v.Tone, v.Text = Warn, "It works, with "+count(warnings, "warning")
	default:
		v.Text = "It works"
	}
	return v
}

// Stop returns the kill switch that stops the workspace; nil: none does.
func (f *Facts) Stop() *halt.Switch {
	return f.stop(func(k halt.Switch) bool { return k.Scope == halt.Workspace })
}

// operatorStop returns the kill switch that stops the agent that beats work as; nil: none does.
func (f *Facts) operatorStop() *halt.Switch {
	return f.stop(func(k halt.Switch) bool { return k.Scope == halt.Agent && k.Target == activity.Operator })
}

// modelStop returns a kill switch that stops a model; nil: none does.
func (f *Facts) modelStop() *halt.Switch {
	return f.stop(func(k halt.Switch) bool { return k.Scope == halt.Model })
}

// stop returns the first kill switch that fits; nil: none does.
func (f *Facts) stop(fits func(halt.Switch) bool) *halt.Switch {
	if i := slices.IndexFunc(f.Switches, fits); i >= 0 {
		return &f.Switches[i]
	}
	return nil
}

// success returns the share of calls that succeeded, in per cent.
func (f *Facts) success() float64 { return 100 * float64(f.Succeeded) / float64(max(1, f.Calls)) }

func (f *Facts) lowSuccess() bool { return f.Calls > 0 && f.success() < warnBelow }

func (f *Facts) waitsLong() bool { return f.Oldest != nil && f.Now.Sub(*f.Oldest) > waitsFor }

func (f *Facts) calls() Line {
	l := Line{Key: "calls", Tone: Done, Text: "Calls succeed", Detail: "none in the last hour", Link: "activity"}
	if f.Calls > 0 {
		l.Detail = fmt.Sprintf("%s of %d in 1 h", percent(f.success()), f.Calls)
	}
	failed := fmt.Sprintf("%d of %d in 1 h", f.Calls-f.Succeeded, f.Calls)
	switch {
	case f.Models > 0 && f.ModelsDown == f.Models:
		l.Tone, l.Text, l.Detail = Failed, "No model answers", "the circuits of all models are open; lanekeeper doctor says why"
	case f.Calls >= minCalls && f.success() < failedBelow:
		l.Tone, l.Text, l.Detail = Failed, "Calls fail", failed
	case f.lowSuccess():
		l.Tone, l.Text, l.Detail = Warn, "Some calls fail", failed
	case f.waitsLong():
		l.Tone, l.Text, l.Link = Warn, "A call waits for a person", "approvals"
		l.Detail = "for " + ago(f.Now.Sub(*f.Oldest))
	default:
		if stop := f.modelStop(); stop != nil {
			l.Tone, l.Text, l.Detail, l.Link = Warn, "Model "+stop.Target+" is stopped", "by "+who(stop.SetBy), "skills"
		}
	}
	return l
}

// beatsLate reports whether no beat ended within two intervals. A beat that runs under its lane, and a
// workspace younger than that, are not late.
func (f *Facts) beatsLate() bool {
	last := f.Created
	if ended := f.LastEnded(); ended != nil {
		last = *ended
	}
	return f.Every > 0 && !f.beatRuns() && f.Now.Sub(last) > 2*f.Every
}

func (f *Facts) beats() Line {
	l := Line{Key: "beats", Tone: Done, Text: "Beats are on time", Link: "activity?surface=heartbeat"}
	ended := f.LastEnded()
	switch {
	case f.beatRuns():
		l.Detail = "one runs now"
	case ended != nil:
		l.Detail = "the last ended " + ago(f.Now.Sub(*ended)) + " ago"
	default:
		l.Detail = "none has run yet"
	}
	switch stop := f.Stop(); {
	case stop != nil:
		l.Tone, l.Text, l.Detail = Failed, "Beats are stopped", "by "+who(stop.SetBy)
	case f.beatsLate():
		l.Tone, l.Text = Failed, "Beats are missing"
		if stop := f.operatorStop(); stop != nil {
			l.Text, l.Detail = "Beats are stopped", "by "+who(stop.SetBy)
		}
	case f.operatorStop() != nil:
		l.Tone, l.Text, l.Detail, l.Link = Warn, activity.Operator+" is stopped", "by "+who(f.operatorStop().SetBy), "skills"
	}
	return l
}

func (f *Facts) lanes() Line {
	l := Line{Key: "lanes", Tone: Done, Text: "Lanes move", Detail: fmt.Sprintf("%d held, %d stuck", f.LanesHeld, f.LanesWanted), Link: "lanes"}
	if f.LanesWanted > 0 && f.WantedSince != nil {
		l.Tone, l.Text = Warn, "Lane "+string(f.WantedLane)+" is wanted"
		l.Detail = "for " + ago(f.Now.Sub(*f.WantedSince))
	}
	return l
}

func (f *Facts) skills() Line {
	l := Line{Key: "skills", Tone: Done, Text: "Skills are well", Detail: "self-healing disabled none", Link: "skills"}
	switch {
	case f.HealCount == 1:
		l.Tone, l.Text, l.Detail = Warn, f.Heals[0].Skill+" is disabled", "self-healing, "+ago(f.Now.Sub(f.Heals[0].At))+" ago"
	case f.HealCount > 1:
		l.Tone, l.Text, l.Detail = Warn, count(f.HealCount, "skill")+" are disabled", "by self-healing"
	}
	return l
}

func (f *Facts) budgets() Line {
	l := Line{Key: "budgets", Tone: Done, Text: "Budgets last", Link: "budgets"}
	switch n := len(f.Budgets); n {
	case 0:
		l.Text, l.Detail = "Budgets bound nothing", "there is none"
	default:
		l.Detail = count(n, "budget")
	}
	worst := budget.Continue
	for _, a := range f.Budgets {
		if a.Recommendation.Allows(worst) {
			continue
		}
		worst = a.Recommendation
		l.Tone, l.Text, l.Detail = Warn, f.EndsEarly(a.Budget), "advice: "+strings.ToLower(string(a.Recommendation))
		if a.ExhaustionDate != nil {
			l.Detail = fmt.Sprintf("%s, period %s", a.ExhaustionDate.UTC().Format("2 Jan"), a.Budget.End.UTC().Format("2 Jan"))
		}
	}
	return l
}

// EndsEarly says of a budget, by its name where it has one, that it ends early. An id says nothing to people.
func (f *Facts) EndsEarly(b budget.Budget) string {
	name, kind := f.BudgetNames[b.ScopeID], " "+string(b.Scope)
	if b.Scope == budget.Agent {
		kind = ""
		if ref, _, _ := strings.Cut(b.ScopeID, ":"); len(ref) < len("00000000-0000-0000-0000-000000000000") {
			name = ref // "flowpilot:hb" is of its beats
		}
	}
	if b.Scope == budget.Skill {
		name = b.ScopeID
	}
	switch {
	case b.Scope == budget.Global:
		return "Budget ends early"
	case name == "":
		return "Budget of one " + string(b.Scope) + " ends early"
	}
	return "Budget of" + kind + " " + titled(name) + " ends early"
}

// coordinatorSilent reports whether the coordinator, which there are agents for, has not cycled lately.
func (f *Facts) coordinatorSilent() bool {
	return f.Agents > 0 && (f.LastCycle == nil || f.Now.Sub(*f.LastCycle) > cyclesFor)
}

func (f *Facts) coordinator() Line {
	l := Line{Key: "coordinator", Tone: Done, Text: "Coordinator cycles", Link: "agents"}
	switch {
	case f.LastCycle != nil:
		l.Detail = fmt.Sprintf("%s ago, %d ms", ago(f.Now.Sub(*f.LastCycle)), f.CycleTook.Milliseconds())
	case f.Agents == 0:
		l.Text, l.Detail = "Coordinator rests", "there is no agent"
	default:
		l.Detail = "it has not run yet"
	}
	switch {
	case f.UnwellCount == 1:
		l.Tone, l.Text = Warn, "Agent "+f.Unwell[0].Name+" is "+f.Unwell[0].Status
	case f.UnwellCount > 1:
		l.Tone, l.Text = Warn, count(f.UnwellCount, "agent")+" are not well"
	case f.coordinatorSilent():
		l.Tone, l.Text = Warn, "Coordinator is silent"
	}
	return l
}

// State says what the agent is in.
func (f *Facts) State() State {
	switch {
	case f.Stop() != nil:
		return Stopped
	case f.Verdict().Tone == Failed:
		return NotWorking
	case f.beatRuns() || f.Object() != nil:
		return Working
	}
	return Idle
}

// Sentence says in one sentence what the agent does now.
func (f *Facts) Sentence() string {
	switch f.State() {
	case Stopped:
		return stoppedBy(f.Stop())
	case NotWorking:
		return activity.Operator + " does not work: " + f.cause()
	case Working:
		o := f.Object()
		if o == nil {
			return activity.Operator + " runs a beat: " + phaseSentence[f.Phase()]
		}
		s := o.Agent + " works on " + o.Title
		if more := f.others(); more > 0 {
			s += ", and " + count(more, "other run") + verb(more, " goes on", " go on")
		}
		return s
	}
	if stop := f.operatorStop(); stop != nil {
		return stoppedBy(stop)
	}
	if next := f.NextBeat(); next != nil {
		return activity.Operator + " waits; the next beat begins in " + ago(next.Sub(f.Now))
	}
	return activity.Operator + " waits for the next beat"
}

func stoppedBy(stop *halt.Switch) string {
	s := activity.Operator + " is stopped by " + who(stop.SetBy)
	if stop.Reason != "" {
		s += ": " + stop.Reason
	}
	return s
}

// phaseSentence says what a beat does in each phase.
var phaseSentence = map[string]string{
	"heal": "it looks for what is broken", "plan": "it plans", "automate": "it runs automations",
	"advance": "it takes the next step of objectives", "reflect": "it reflects", "remember": "it saves memories",
}

// others counts the runs beside the one that the sentence names, without beats, which only frame them.
func (f *Facts) others() (n int) {
	for _, r := range f.Running {
		if r.Subject != "heartbeat" {
			n++
		}
	}
	return max(0, n-1)
}

// cause says why the agent does not work.
func (f *Facts) cause() string {
	for _, l := range f.Verdict().Lines {
		if l.Tone == Failed {
			return strings.ToLower(l.Text[:1]) + l.Text[1:] + " (" + l.Detail + ")"
		}
	}
	return "the cause is not known"
}

// who names a principal for people: user:ada becomes ada.
func who(by string) string {
	if _, name, has := strings.Cut(by, ":"); has && name != "" {
		return name
	}
	return by
}

func count(n int, of string) string {
	return fmt.Sprintf("%d %s%s", n, of, verb(n, "", "s"))
}

func verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// percent rounds down, so that 100 % means all.
func percent(p float64) string {
	text := fmt.Sprintf("%.1f", float64(int(p*10))/10)
	return strings.TrimSuffix(text, ".0") + " %"
}

// ago says how long something lasts, in its largest unit.
func ago(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
