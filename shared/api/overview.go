package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/budget"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// overviewAnswer says what the agent does now, whether it works, and what needs a person.
type overviewAnswer struct {
	State     overview.State    `json:"state" enum:"working,idle,stopped,not_working"`
	Sentence  string            `json:"sentence" doc:"What it does now, for people"`
	Object    *objectItem       `json:"object,omitempty" doc:"What the sentence is about; left out: nothing is worked on"`
	Verdict   verdictItem       `json:"verdict"`
	Stop      *stopItem         `json:"stop,omitempty" doc:"The kill switch that stops the workspace; left out: none does"`
	Beat      beatItem          `json:"beat"`
	Today     todayItem         `json:"today"`
	Failures  failuresItem      `json:"failures"`
	Approvals openApprovals     `json:"approvals"`
	Needs     []needItem        `json:"needs" nullable:"false" maxItems:"10" doc:"What a person should look at, the most urgent first"`
	Running   []runningItem     `json:"running" nullable:"false" maxItems:"20" doc:"The newest first"`
	Lanes     []overviewLane    `json:"lanes" nullable:"false" maxItems:"20" doc:"The longest held first"`
	Tasks     overviewTasksItem `json:"tasks"`
	At        time.Time         `json:"at" doc:"The time of the database"`
}

// objectItem is what the agent works on.
type objectItem struct {
	Kind  string `json:"kind" enum:"objective,automation,task,execution"`
	ID    string `json:"id"`
	Title string `json:"title"`
}

// verdictItem says whether the agent works, by stated rules.
type verdictItem struct {
	Tone  overview.Tone `json:"tone" enum:"done,warn,failed"`
	Text  string        `json:"text"`
	Lines []verdictLine `json:"lines" nullable:"false" minItems:"6" maxItems:"6" doc:"Always the same six, in the same order"`
}

type verdictLine struct {
	Key    string        `json:"key" enum:"calls,beats,lanes,skills,budgets,coordinator"`
	Tone   overview.Tone `json:"tone" enum:"done,warn,failed"`
	Text   string        `json:"text"`
	Detail string        `json:"detail"`
	Link   *string       `json:"link" doc:"Where more is told, as a resource with its filters; null: nowhere"`
}

// stopItem is a kill switch that is on.
type stopItem struct {
	ID     string    `json:"id" format:"uuid"`
	Scope  string    `json:"scope" enum:"workspace,agent,skill,model"`
	Target string    `json:"target"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// beatItem describes the heartbeat: its present phase, the phases that have ended, and when the next one
// is due.
type beatItem struct {
	Running         bool            `json:"running"`
	Phase           *string         `json:"phase,omitempty" enum:"heal,plan,automate,advance,reflect,remember" doc:"Of the beat that runs; left out: none runs"`
	Done            []beatPhaseItem `json:"done" nullable:"false" doc:"The phases that have ended, of the beat that runs or ran last"`
	NextAt          *time.Time      `json:"nextAt" doc:"When the next beat is due; null: its schedule is not known here"`
	LastAt          *time.Time      `json:"lastAt" doc:"When a beat ended last; null: none has"`
	IntervalSeconds int64           `json:"intervalSeconds" doc:"0: it is not known"`
	TraceID         *trace.ID       `json:"traceId" doc:"Of the beat that runs or ran last"`
}

type beatPhaseItem struct {
	Phase      string `json:"phase" enum:"heal,plan,automate,advance,reflect,remember"`
	DurationMS int64  `json:"durationMs"`
	Text       string `json:"text"`
}

// todayItem is what model calls have used since the beginning of the day (UTC).
type todayItem struct {
	MicroUSD    int64  `json:"microUsd" doc:"Of the calls whose cost is known"`
	Tokens      int64  `json:"tokens"`
	Calls       int64  `json:"calls"`
	CapTokens   *int64 `json:"capTokens" doc:"Of the global budget of this day, or else what all beats of a day may use; null: no bound"`
	CapMicroUSD *int64 `json:"capMicroUsd" doc:"The same in money; null: no bound"`

	CappedTokens   int64 `json:"cappedTokens" doc:"What counts toward capTokens: all tokens, or else those of beats"`
	CappedMicroUSD int64 `json:"cappedMicroUsd" doc:"The same in money"`
}

type failuresItem struct {
	Count int           `json:"count" doc:"1001: or more"`
	Items []openFailure `json:"items" nullable:"false" maxItems:"10" doc:"The latest first"`
}

type openApprovals struct {
	Count int                `json:"count"`
	Items []openApprovalItem `json:"items" nullable:"false" maxItems:"5" doc:"Those that expire first"`
}

type openApprovalItem struct {
	ID        string    `json:"id" format:"uuid"`
	Title     string    `json:"title"`
	Skill     string    `json:"skill"`
	Agent     string    `json:"agent"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// needItem is one thing that a person should look at.
type needItem struct {
	Kind  string    `json:"kind" enum:"approval,failure,heal,budget,lane,agent,stop,task"`
	ID    string    `json:"id" doc:"Of the approval, the failure, the heal, the budget, the agent, the switch or the first task; the name of the lane"`
	Title string    `json:"title"`
	Why   string    `json:"why"`
	At    time.Time `json:"at"`
	Tone  string    `json:"tone" enum:"person,warn,failed"`
}

// runningItem is an execution that is being worked on.
type runningItem struct {
	ExecutionID string    `json:"executionId" format:"uuid"`
	TraceID     trace.ID  `json:"traceId"`
	Surface     string    `json:"surface" enum:"heartbeat,operate,chat,webhook,coordinator,worker"`
	Agent       string    `json:"agent"`
	Title       string    `json:"title"`
	Lane        *string   `json:"lane" doc:"That protects it; null: none does"`
	StartedAt   time.Time `json:"startedAt"`
	Step        *int      `json:"step" doc:"Counts the model's answers; null: there is none yet"`
	Doing       *string   `json:"doing" doc:"What it is at; null: it is not known"`
	Tokens      int64     `json:"tokens" doc:"What its trace has used so far"`
	MicroUSD    int64     `json:"microUsd" doc:"What its trace has cost so far, of the calls whose cost is known"`
}

// overviewLane is a lane that is held now.
type overviewLane struct {
	Lane       lane.Name   `json:"lane"`
	Label      string      `json:"label" doc:"What it protects, for people"`
	Holder     lane.Holder `json:"holder"`
	Doing      *string     `json:"doing" doc:"What the holder is at; null: it is not known"`
	Surface    *string     `json:"surface" doc:"Of the execution that holds it; null: none does"`
	AcquiredAt time.Time   `json:"acquiredAt"`
	ExpiresAt  time.Time   `json:"expiresAt"`
	WantedAt   *time.Time  `json:"wantedAt" doc:"Since when somebody waits for it; null: nobody does"`
	Waiting    int         `json:"waiting" doc:"1 if somebody waits: only the first is known"`
	Fence      int64       `json:"fence"`
	TraceID    *trace.ID   `json:"traceId"`
}

type overviewTasksItem struct {
	Waiting     int           `json:"waiting"`
	WaitingMore bool          `json:"waitingMore" doc:"waiting is a lower bound: of the tasks that are PENDING, the newest 10,000 are counted"`
	Working     int           `json:"working"`
	Failed      int           `json:"failed"`
	ByReason    []reasonCount `json:"byReason" nullable:"false" doc:"Why those wait that wait, the most frequent first"`
}

type reasonCount struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// getOverview is called by the Engine Room, lanekeeper overview and scripts.
func (s *server) getOverview(ctx context.Context, _ *struct{}) (*answer[overviewAnswer], error) {
	f, err := s.overviews.Read(ctx, workspace(ctx), s.Clock)
	if err != nil {
		return nil, err
	}
	v := f.Verdict()
	out := overviewAnswer{
		State: f.State(), Sentence: f.Sentence(), Beat: beatOf(f), Today: todayOf(f), Needs: needsOf(f), Tasks: tasksOf(f), At: f.Now.UTC(),
		Verdict:   verdictItem{Tone: v.Tone, Text: v.Text, Lines: make([]verdictLine, len(v.Lines))},
		Failures:  failuresItem{Count: f.Failures.Count, Items: []openFailure{}},
		Approvals: openApprovals{Count: f.ApprovalCount, Items: []openApprovalItem{}},
		Running:   []runningItem{}, Lanes: []overviewLane{},
	}
	for i, l := range v.Lines {
		out.Verdict.Lines[i] = verdictLine{Key: l.Key, Tone: l.Tone, Text: l.Text, Detail: l.Detail, Link: text(l.Link)}
	}
	if o := f.Object(); o != nil {
		out.Object = &objectItem{Kind: o.Kind, ID: o.ID, Title: o.Title}
	}
	if k := f.Stop(); k != nil {
		out.Stop = &stopItem{ID: k.ID, Scope: string(k.Scope), Target: k.Target, Reason: k.Reason, By: k.SetBy, Since: k.SetAt.UTC()}
	}
	for _, x := range f.Failures.Items {
		out.Failures.Items = append(out.Failures.Items, openFailureOf(x))
	}
	for _, x := range f.Approvals {
		out.Approvals.Items = append(out.Approvals.Items, openApprovalItem{x.ID, x.Title, x.Skill, x.Agent, x.Asked.UTC(), x.Expires.UTC()})
	}
	for _, x := range f.Running {
		item := runningItem{
			ExecutionID: x.ID, TraceID: x.Trace, Surface: surfaceName(x.Surface), Agent: x.Agent, Lane: text(string(x.Subject)),
			Title: cmp.Or(overview.Title(x.Input), overview.LabelOf(x.Subject), x.Agent), StartedAt: x.Began.UTC(),
			Step: x.At.Step, Doing: text(x.At.Doing()), Tokens: x.Tokens, MicroUSD: x.MicroUSD,
		}
		out.Running = append(out.Running, item)
	}
	for _, x := range f.Held {
		out.Lanes = append(out.Lanes, overviewLaneOf(x))
	}
	return answered(out), nil
}

func overviewLaneOf(x overview.Hold) overviewLane {
	item := overviewLane{
		Lane: x.Lane, Label: x.Label(), Holder: x.Holder, Doing: text(x.At.Doing()), AcquiredAt: x.Acquired.UTC(), ExpiresAt: x.Expires.UTC(),
		WantedAt: utc(x.WantedAt), Fence: x.Fence,
	}
	if x.WantedAt != nil {
		item.Waiting = 1
	}
	if x.Surface != "" {
		item.Surface = new(surfaceName(x.Surface))
	}
	if x.Trace != "" {
		item.TraceID = &x.Trace
	}
	return item
}

// text returns a pointer to a text, or nil if it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func beatOf(f *overview.Facts) beatItem {
	b := beatItem{
		Phase: text(f.Phase()), Done: []beatPhaseItem{}, NextAt: f.NextBeat(), LastAt: utc(f.LastEnded()),
		IntervalSeconds: int64(f.Every / time.Second),
	}
	b.Running = b.Phase != nil
	for _, p := range f.Phases {
		b.Done = append(b.Done, beatPhaseItem{p.Name, p.Took.Milliseconds(), p.Text()})
	}
	if len(f.Beats) > 0 {
		b.TraceID = &f.Beats[0].Trace
	}
	return b
}

func todayOf(f *overview.Facts) todayItem {
	t := todayItem{MicroUSD: f.Today.MicroUSD, Tokens: f.Today.Tokens, Calls: f.Today.Calls}
	t.CappedTokens, t.CappedMicroUSD = t.Tokens, t.MicroUSD
	for _, a := range f.Budgets {
		if a.Scope == budget.Global && a.End.Sub(a.Start) <= 24*time.Hour {
			t.CapTokens = new(a.Tokens.Allocated)
			if a.Capped {
				t.CapMicroUSD = new(a.MicroUSD.Allocated)
			}
			return t
		}
	}
	t.CappedTokens, t.CappedMicroUSD = f.Today.BeatTokens, f.Today.BeatMicroUSD
	t.CapTokens = new(f.Settings.DayTokens)
	if f.Settings.DayMicroUSD > 0 {
		t.CapMicroUSD = new(f.Settings.DayMicroUSD)
	}
	return t
}

func tasksOf(f *overview.Facts) overviewTasksItem {
	t := overviewTasksItem{WaitingMore: f.WaitingMore(), ByReason: []reasonCount{}}
	for _, c := range f.Tasks {
		switch c.Code {
		case "running":
			t.Working = c.N
		case "failed":
			t.Failed = c.N
		default:
			t.Waiting += c.N
			t.ByReason = append(t.ByReason, reasonCount{c.Code, c.N})
		}
	}
	return t
}

// maxNeeds is the most things that a person is asked to look at.
const maxNeeds = 10

// mostFailures is how many failures are listed however many other things there are.
const mostFailures = 3

// needsOf lists what a person should look at, the most urgent first. Failures leave room for all the rest.
func needsOf(f *overview.Facts) []needItem {
	var urgent, failures, rest []needItem
	if k := f.Stop(); k != nil {
		urgent = append(urgent, needItem{"stop", k.ID, "The workspace is stopped", cmp.Or(k.Reason, "by "+k.SetBy), k.SetAt, "failed"})
	}
	for _, x := range f.Approvals {
		urgent = append(urgent, needItem{"approval", x.ID, x.Title, x.Agent + " asks to call " + x.Skill, x.Asked, "person"})
	}
	for _, x := range f.Failures.Items {
		is := openFailureOf(x)
		failures = append(failures, needItem{"failure", is.ID, is.Title, is.Why, is.At, "failed"})
	}
	for _, x := range f.Stranded {
		title := "A task waits, and no agent can take it"
		if x.N > 1 {
			title = fmt.Sprintf("%d tasks wait, and no agent can take them", x.N)
		}
		rest = append(rest, needItem{"task", x.Task, title, x.Why + ": " + x.Next, x.Since, "warn"})
	}
	for _, x := range f.Heals {
		why := fmt.Sprintf("self-healing disabled it after %d failures", x.Failures)
		rest = append(rest, needItem{"heal", x.ID, x.Skill + " is disabled", why, x.At, "warn"})
	}
	for _, x := range f.Budgets {
		if x.Recommendation != budget.Continue {
			rest = append(rest, needItem{"budget", x.ID, f.EndsEarly(x.Budget), "it advises " + string(x.Recommendation), f.Now, "warn"})
		}
	}
	if f.LanesWanted > 0 && f.WantedSince != nil {
		rest = append(rest, needItem{"lane", string(f.WantedLane), "Lane " + string(f.WantedLane) + " is wanted", "somebody waits for it",
			*f.WantedSince, "warn"})
	}
	for _, x := range f.Unwell {
		rest = append(rest, needItem{"agent", x.ID, x.Name, "it is " + x.Status, x.At, "warn"})
	}
	room := max(mostFailures, maxNeeds-len(urgent)-len(rest))
	out := append([]needItem{}, slices.Concat(urgent, failures[:min(len(failures), room)], rest)...)
	out = out[:min(len(out), maxNeeds)]
	for i := range out {
		out[i].At = out[i].At.UTC()
	}
	return out
}
