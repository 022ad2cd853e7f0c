package overview

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

var now = time.Date(2026, 11, 22, 14, 12, 0, 0, time.UTC)

// ago is a time before now.
func before(d time.Duration) *time.Time { return new(now.Add(-d)) }

// well returns the facts of a workspace in which all is well.
func well() Facts {
	return Facts{
		Now: now, Created: now.Add(-1000 * time.Hour), Every: 30 * time.Minute,
		Beats: []Beat{{ID: "b", Status: execution.Completed, Slot: "heartbeat:ws:2026-11-22T14:00Z", Began: now.Add(-12 * time.Minute), Ended: now.Add(-10 * time.Minute)}},
		Calls: 100, Succeeded: 100, Models: 2,
	}
}

// TestCallsAreCountedAsTheirLineSays: beside "fail" stands how many failed, beside "succeed" how many did.
func TestCallsAreCountedAsTheirLineSays(t *testing.T) {
	for succeeded, want := range map[int]string{
		100: "Calls succeed: 100 % of 100 in 1 h", 94: "Some calls fail: 6 of 100 in 1 h", 79: "Calls fail: 21 of 100 in 1 h",
	} {
		f := well()
		f.Succeeded = succeeded
		if l := f.calls(); l.Text+": "+l.Detail != want {
			t.Errorf("%s: %s, want %s", l.Text, l.Detail, want)
		}
	}
}

// TestAnAgentThatIsStoppedDoesNotWait: no beat is promised while a kill switch stops the agent that beats work as.
func TestAnAgentThatIsStoppedDoesNotWait(t *testing.T) {
	f := well()
	f.Switches = halt.Switches{{Scope: halt.Agent, Target: "flowpilot", SetBy: "user:ada", Reason: "stock-taking"}}
	if got, want := f.Sentence(), "flowpilot is stopped by ada: stock-taking"; got != want || f.State() != Idle || f.Stop() != nil {
		t.Errorf("%q, %s, want %q", got, f.State(), want)
	}
	if l, want := f.beats(), "flowpilot is stopped: by ada"; l.Text+": "+l.Detail != want || l.Link != "skills" { // where it is released
		t.Errorf("the line is %+v, want %s", l, want)
	}
	f.Beats[0].Ended = now.Add(-2 * time.Hour)
	if l := f.beats(); l.Text != "Beats are stopped" {
		t.Errorf("without beats the line is %+v", l)
	}
}

// TestTheVerdictFollowsItsRules tries each rule right below and above its limit.
func TestTheVerdictFollowsItsRules(t *testing.T) {
	throttles := budget.Advice{Budget: budget.Budget{Scope: budget.Global}, Projection: budget.Projection{Recommendation: budget.Throttle}}
	for name, c := range map[string]struct {
		change func(*Facts)
		tone   Tone
		text   string
		line   int // that has the tone; -1: none
	}{
		"well":               {func(*Facts) {}, Done, "It works", -1},
		"stopped":            {func(f *Facts) { f.Switches = halt.Switches{{Scope: halt.Workspace, SetBy: "user:ada"}} }, Failed, "It is stopped", 1},
		"another is stopped": {func(f *Facts) { f.Switches = halt.Switches{{Scope: halt.Skill, Target: "x"}} }, Done, "It works", -1},
		"flowpilot is stopped": {func(f *Facts) {
			f.Switches = halt.Switches{{Scope: halt.Agent, Target: "flowpilot", SetBy: "user:ada"}}
		}, Warn, "It works, with 1 warning", 1},
		"a model is stopped": {func(f *Facts) {
			f.Switches = halt.Switches{{Scope: halt.Model, Target: "large", SetBy: "user:ada"}}
		}, Warn, "It works, with 1 warning", 0},
		"another agent is stopped": {func(f *Facts) { f.Switches = halt.Switches{{Scope: halt.Agent, Target: "scout"}} }, Done, "It works", -1},
		"beats are due":            {func(f *Facts) { f.Beats[0].Ended = now.Add(-time.Hour) }, Done, "It works", -1},
		"beats are missing":        {func(f *Facts) { f.Beats[0].Ended = now.Add(-time.Hour - time.Second) }, Failed, "It does not work", 1},
		"no beat, and young":       {func(f *Facts) { f.Beats, f.Created = nil, now.Add(-time.Hour) }, Done, "It works", -1},
		"no beat, and old":         {func(f *Facts) { f.Beats = nil }, Failed, "It does not work", 1},
		"no beat, and no schedule": {func(f *Facts) { f.Beats, f.Every = nil, 0 }, Done, "It works", -1},
		"a long beat runs": {func(f *Facts) {
			f.Beats[0] = Beat{Status: execution.Running, LaneHeld: true, Began: now.Add(-2 * time.Hour), Ended: now}
		}, Done, "It works", -1},
		"a beat was cut off":            {func(f *Facts) { f.Beats[0] = Beat{Status: execution.Running, Began: now.Add(-2 * time.Hour)} }, Failed, "It does not work", 1},
		"models are down":               {func(f *Facts) { f.ModelsDown = 2 }, Failed, "It does not work", 0},
		"a model is down":               {func(f *Facts) { f.ModelsDown = 1 }, Done, "It works", -1},
		"80 %":                          {func(f *Facts) { f.Calls, f.Succeeded = 20, 16 }, Warn, "It works, with 1 warning", 0},
		"under 80 %":                    {func(f *Facts) { f.Calls, f.Succeeded = 1000, 799 }, Failed, "It does not work", 0},
		"under 80 % of few":             {func(f *Facts) { f.Calls, f.Succeeded = 19, 0 }, Warn, "It works, with 1 warning", 0},
		"95 %":                          {func(f *Facts) { f.Succeeded = 95 }, Done, "It works", -1},
		"under 95 %":                    {func(f *Facts) { f.Succeeded = 94 }, Warn, "It works, with 1 warning", 0},
		"a heal":                        {func(f *Facts) { f.HealCount, f.Heals = 1, []Heal{{Skill: "shop_status", At: now}} }, Warn, "It works, with 1 warning", 3},
		"a wanted lane":                 {func(f *Facts) { f.LanesHeld, f.LanesWanted, f.WantedSince = 1, 1, before(61*time.Second) }, Warn, "It works, with 1 warning", 2},
		"a lane that is wanted briefly": {func(f *Facts) { f.LanesHeld, f.WantedSince = 1, before(time.Second) }, Done, "It works", -1},
		"a budget":                      {func(f *Facts) { f.Budgets = []budget.Advice{throttles} }, Warn, "It works, with 1 warning", 4},
		"an old approval":               {func(f *Facts) { f.Oldest = before(24*time.Hour + time.Second) }, Warn, "It works, with 1 warning", 0},
		"an approval":                   {func(f *Facts) { f.Oldest = before(24 * time.Hour) }, Done, "It works", -1},
		"an unwell agent": {func(f *Facts) {
			f.Agents, f.LastCycle, f.UnwellCount, f.Unwell = 1, before(time.Second), 1, []Agent{{Name: "scout", Status: "ERROR"}}
		}, Warn, "It works, with 1 warning", 5},
		"a silent coordinator": {func(f *Facts) { f.Agents, f.LastCycle = 1, before(121*time.Second) }, Warn, "It works, with 1 warning", 5},
		"two in one line":      {func(f *Facts) { f.Succeeded, f.Oldest = 90, before(48*time.Hour) }, Warn, "It works, with 2 warnings", 0},
	} {
		f := well()
		c.change(&f)
		v := f.Verdict()
		if v.Tone != c.tone || v.Text != c.text || len(v.Lines) != 6 {
			t.Errorf("%s: %+v", name, v)
			continue
		}
		for i, l := range v.Lines {
			if want := map[bool]Tone{true: c.tone, false: Done}[i == c.line]; l.Tone != want {
				t.Errorf("%s: line %s is %s: %s (%s)", name, l.Key, l.Tone, l.Text, l.Detail)
			}
		}
	}
}

// TestABudgetThatEndsEarlySaysWhen: people read a name and two days, and no id.
func TestABudgetThatEndsEarlySaysWhen(t *testing.T) {
	const scout = "01a20dbb-2977-76c5-8cba-472ffc5d3d0f"
	ends, long := before(-96*time.Hour), strings.Repeat("x", 100)
	for want, b := range map[string]budget.Budget{
		"Budget ends early":                            {Scope: budget.Global},
		"Budget of flowpilot ends early":               {Scope: budget.Agent, ScopeID: "flowpilot:hb"},
		"Budget of one project ends early":             {Scope: budget.Project, ScopeID: "01a20dbb-2977-76c5-8cba-472ffc5d3d0e"},
		"Budget of one agent ends early":               {Scope: budget.Agent, ScopeID: "01a20dbb-2977-76c5-8cba-472ffc5d3d0e"},
		"Budget of scout ends early":                   {Scope: budget.Agent, ScopeID: scout},
		"Budget of task " + long[:79] + "… ends early": {Scope: budget.Task, ScopeID: "t"},
		"Budget of skill look ends early":              {Scope: budget.Skill, ScopeID: "look"},
	} {
		b.End = now.Add(240 * time.Hour)
		f := well()
		f.Budgets = []budget.Advice{{Budget: b, Projection: budget.Projection{Recommendation: budget.Throttle, ExhaustionDate: ends}}}
		f.BudgetNames = map[string]string{scout: "scout", "t": long}
		detail := ends.Format("2 Jan") + ", period " + b.End.Format("2 Jan")
		if l := f.Verdict().Lines[4]; l.Text != want || l.Detail != detail {
			t.Errorf("%q (%q), want %q (%q)", l.Text, l.Detail, want, detail)
		}
	}
}

// TestTasksAreCountedToALimit: at the limit, more may wait than are told.
func TestTasksAreCountedToALimit(t *testing.T) {
	f := Facts{Tasks: []Count{{"no_agent", maxPending - 1}, {"running", 5}, {"paused", 5}}}
	if f.WaitingMore() {
		t.Error("all are counted")
	}
	f.Tasks = append(f.Tasks, Count{"thread", 1})
	if !f.WaitingMore() {
		t.Error("there may be more")
	}
}

func TestTheSentenceSaysWhoWorksOnWhat(t *testing.T) {
	objective := Run{ID: "x", Surface: trace.Heartbeat, Agent: "flowpilot", Subject: lane.Objective("o"), Input: json.RawMessage(`{"task":"advance","title":"Answer every refund"}`)}
	beats := []Beat{{Status: execution.Running, LaneHeld: true, Began: now}}
	for want, change := range map[string]func(*Facts){
		"flowpilot waits; the next beat begins in 18 min":                 func(*Facts) {},
		"flowpilot runs a beat: it looks for what is broken":              func(f *Facts) { f.Beats = beats },
		"flowpilot runs a beat: it runs automations":                      func(f *Facts) { f.Beats, f.Phases = beats, []Phase{{Name: "plan"}} },
		"flowpilot works on Answer every refund":                          func(f *Facts) { f.Beats, f.Running = beats, []Run{objective} },
		"flowpilot works on Answer every refund, and 1 other run goes on": func(f *Facts) { f.Running = []Run{objective, {Subject: "execution:y"}} },
		"flowpilot is stopped by ada: stock-taking": func(f *Facts) {
			f.Switches = halt.Switches{{Scope: halt.Workspace, SetBy: "user:ada", Reason: "stock-taking"}}
		},
		"flowpilot does not work: beats are stopped (by ada)": func(f *Facts) {
			f.Beats[0].Ended = now.Add(-2 * time.Hour)
			f.Switches = halt.Switches{{Scope: halt.Agent, Target: "scout", SetBy: "user:eve"}, {Scope: halt.Agent, Target: "flowpilot", SetBy: "user:ada"}}
		},
		"flowpilot does not work: beats are missing (the last ended 2 h ago)": func(f *Facts) {
			f.Beats[0].Ended = now.Add(-2 * time.Hour)
			f.Switches = halt.Switches{{Scope: halt.Agent, Target: "scout", SetBy: "user:eve"}}
		},
		"flowpilot does not work: no model answers (the circuits of all models are open; lanekeeper doctor says why)": func(f *Facts) { f.ModelsDown = 2 },
		"ada works on Count the stock": func(f *Facts) { f.Task = &Task{Title: "Count the stock", Agent: "ada"} },
	} {
		f := well()
		change(&f)
		if got := f.Sentence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f := well()
	f.Beats, f.Running = beats, []Run{objective}
	if f.Phase() != "advance" || f.State() != Working || f.Object().Kind != "objective" || f.Object().ID != "o" {
		t.Errorf("phase %q, %+v", f.Phase(), f.Object())
	}
}

func TestTheNextBeatFollowsItsSlots(t *testing.T) {
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 22, hour, minute, 0, 0, time.UTC) }
	for want, change := range map[time.Time]func(*Facts){
		at(14, 30): func(*Facts) {},
		at(14, 37): func(f *Facts) { f.Beats[0].Slot = "heartbeat:ws:2026-11-22T14:07Z" }, // a schedule with a phase of its own
		at(14, 17): func(f *Facts) { f.Beats[0].Slot = "heartbeat:ws:2026-11-22T11:47Z" }, // slots were missed
		at(14, 14): func(f *Facts) { f.PutOff = new(at(14, 14)) },
	} {
		f := well()
		change(&f)
		if got := f.NextBeat(); got == nil || !got.Equal(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
