package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// sheet returns a paper with the given number of columns, and its contents.
func sheet(width int) (paper, *bytes.Buffer) {
	var out bytes.Buffer
	return paper{w: &out, width: func() int { return width }}, &out
}

// now is the time at which the goldens are printed.
var now = time.Date(2026, 11, 20, 10, 30, 0, 0, time.Local)

func at(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339Nano) }

// listings are responses of the API.
func listings() map[string]string {
	const id, other, trace = "01a203f9-9c2d-7078-8578-3917691c92fa", "01a203f9-9c2e-7164-a5a8-bb6c2d63c7b4", "op_0mwpsn9ll_vbajku4yo5"
	return map[string]string{
		"objectives": `{"items":[{"id":"` + id + `","priority":8,"status":"active","title":"Keep a weekly digest of what the agent did, and send it to the three people who asked"},
			{"id":"` + other + `","priority":10,"status":"completed","title":"会議の要約を書く"}]}`,
		"automations": fmt.Sprintf(`{"items":[{"id":%q,"name":"each morning","skill":"query_activity","enabled":true,"nextRunAt":%q,"lastStatus":"success"},
			{"id":%q,"name":"Is the shop open?","skill":"shop_status","enabled":false}]}`, id, at(22*time.Hour+30*time.Minute), other),
		"approvals": fmt.Sprintf(`{"items":[{"id":%q,"skill":"send_message","input":{"body":"See you on Monday at nine, in the office by the river.","threadId":%q},"status":"pending","requestedAt":%q},
			{"id":%q,"skill":"pay","input":{"amount":5},"editedInput":{"amount":4},"status":"approved","requestedAt":%q}]}`, id, other, at(-3*time.Minute), other, at(-50*time.Hour)),
		"executions": fmt.Sprintf(`{"items":[{"id":%q,"surface":"operate","status":"waiting","title":"Please remember that the door is blue","traceId":%q,"createdAt":%q,"subject":%q},
			{"id":%q,"surface":"heartbeat","status":"completed","traceId":%q,"createdAt":%q,"subject":"heartbeat"},
			{"id":%q,"surface":"worker","status":"running","agent":"collector","traceId":%q,"createdAt":%q,"subject":%q}]}`,
			id, trace, at(-20*time.Second), "execution:"+id, other, "hb_0mwpsn9ll_vbajku4yo5", at(-time.Hour), other, "wk_0mwpsn9ll_vbajku4yo5", at(-100*24*time.Hour), "execution:"+other),
		"usage":    `{"items":[{"key":"demo","calls":1200,"inputTokens":1234567,"outputTokens":890,"totalTokens":1235457,"costMicroUsd":0},{"key":"large","calls":1,"inputTokens":1,"outputTokens":1,"totalTokens":2,"costMicroUsd":4200},{"key":"larger","calls":2,"inputTokens":1,"outputTokens":1,"totalTokens":2,"costMicroUsd":12345678}],"nextCursor":null}`,
		"circuits": `{"items":[]}`,
	}
}

// Listings are for people: they show words, relative times, money, and ids that can be copied.
func TestListings(t *testing.T) {
	for _, width := range []int{60, 120} {
		p, out := sheet(width)
		for _, r := range resources() {
			if answer, ok := listings()[r.name]; ok {
				fmt.Fprintf(out, "## %s\n\n", r.name)
				r.print(p, "list", "", json.RawMessage(answer), now)
				fmt.Fprintln(out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := columnsOf(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		golden(t, fmt.Sprintf("listings_%d.golden", width), out.String())
	}
}

// TestListingsShowNoCodes: lists are words with commas, and whose fault an error is stands in words.
func TestListingsShowNoCodes(t *testing.T) {
	for name, want := range map[string][2]string{
		"site-keys": {`{"items":[{"name":"shop","origins":["https://shop.example","https://www.shop.example"]}]}`,
			"https://shop.example, https://www.shop.example"},
		"heals":    {`{"items":[{"skill":"shop_status","code":"theirs"}]}`, "its server"},
		"failures": {`{"items":[{"kind":"task","why":"dependency_failed"}]}`, "what it depends on failed"},
	} {
		p, out := sheet(200)
		for _, r := range resources() {
			if r.name == name {
				r.print(p, "list", "", json.RawMessage(want[0]), now)
			}
		}
		says(t, out.String(), want[1])
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", -time.Second: "1 second ago", -59 * time.Second: "59 seconds ago", -time.Minute: "1 minute ago", 3 * time.Minute: "in 3 minutes",
		-47 * time.Hour: "47 hours ago", 48 * time.Hour: "in 2 days", -61 * 24 * time.Hour: "2026-09-20",
	} {
		if got := ago(now.Add(d), now); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0", 1: "$0.000001", 4200: "$0.0042", 999_999: "$0.999999", 1_000_000: "$1.00", 1_234_567_890: "$1,234.56"} {
		if got := dollars(micro); got != want {
			t.Errorf("%d is %q, want %q", micro, got, want)
		}
	}
}

func TestTheOverviewTellsLessThanACent(t *testing.T) {
	var o seen
	o.Today.Tokens, o.Today.MicroUSD = 1234567, 3200
	var b strings.Builder
	o.print(newPaper(&b, nil))
	says(t, b.String(), "Today: 1,234,567 tokens, $0.0032.")
}

func TestTheOverviewTellsNoCodes(t *testing.T) {
	var o seen
	told := `{"needs":[{"kind":"failure","title":"Count the stock","why":"dependency_failed","id":"x"}]}`
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	o.print(newPaper(&b, nil))
	says(t, b.String(), "what it depends on failed")
}

// A trace is printed in lines that fit, with words instead of ids.
func TestTheStoryOfATrace(t *testing.T) {
	const turn, beat = "01a203f9-9c2d-7078-8578-3917691c92fa", "01a203f9-9c2e-7164-a5a8-bb6c2d63c7b4"
	was := told{
		TraceID: "op_0mwpsn9ll_vbajku4yo5", Status: "waiting", StartedAt: now, DurationMS: 65_000, Usage: usage{4400},
		Executions: []execution{
			{ID: turn, Title: "Please remember that the door is blue and tell Ada", Subject: "execution:" + turn, Status: "waiting", Attempt: 1, TokenUsage: usage{4400}, CreatedAt: now},
			{ID: beat, Parent: turn, Subject: "automation:" + beat, Status: "failed", Attempt: 2, ErrorMessage: "failed: the server could not be reached, and nobody knows why that is so", CreatedAt: now.Add(2 * time.Second), EndedAt: new(now.Add(3 * time.Second))},
			{ID: "x", Agent: "collector", Subject: "execution:" + beat, Status: "running", Attempt: 1, CreatedAt: now.Add(4 * time.Second)},
		},
		Activities: []act{
			{SkillName: "(model)", Status: "success", Model: "demo", ExecutionID: turn, CreatedAt: now.Add(time.Second), DurationMS: 30},
			{SkillName: "send_message", Status: "pending_approval", ExecutionID: turn, CreatedAt: now.Add(time.Second)},
			{SkillName: "shop_status", Status: "error", ErrorMessage: "the server could not be reached", ExecutionID: beat, CreatedAt: now.Add(2500 * time.Millisecond), DurationMS: 1200, TokenUsage: &usage{12}},
		},
	}
	for _, width := range []int{60, 120} {
		p, out := sheet(width)
		was.print(p, map[string]string{"automation:" + beat: "Is the shop open?"})
		text := strings.Replace(out.String(), now.Format("-07:00"), "+00:00", 1)
		for line := range strings.Lines(text) {
			if n := columnsOf(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		golden(t, fmt.Sprintf("trace_%d.golden", width), text)
	}
}

// A beat in several workspaces is shown with their names.
func TestAReportNamesItsWorkspaces(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	workspaces, err := workspace.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	is, err := workspaces.Get(t.Context(), e.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	report := heartbeat.Report{Workspaces: []heartbeat.Report{{Workspace: string(is.ID)}, {Workspace: "gone"}}}
	names, err := namesIn(t.Context(), workspaces, report)
	if err != nil {
		t.Fatal(err)
	}
	p, out := sheet(0)
	printReport(p, "lanekeeper", report, names)
	says(t, out.String(), "workspace "+is.Name+"\n", "workspace gone\n")
}

// A migration by a role that may create no roles says what its administrator has to do.
func TestAMissingCreateRoleHasAHint(t *testing.T) {
	why := fmt.Errorf("0001_ground.sql: %w", &pgconn.PgError{Code: "42501", Message: "permission denied to create role"})
	if hint := hintFor(unmigrated(why)); !strings.Contains(hint, "GRANT lanekeeper_app TO") {
		t.Errorf("the hint is %q", hint)
	}
	if hint := hintFor(unmigrated(&pgconn.PgError{Code: "42501", Message: "permission denied for schema public"})); hint != "" {
		t.Errorf("another right has the hint %q", hint)
	}
}

// The result of a beat by hand has no empty line and no row of zeros.
func TestReportsOfBeats(t *testing.T) {
	var all strings.Builder
	idle := []heartbeat.Phase{{Name: "heal"}, {Name: "plan"}, {Name: "automate"}, {Name: "advance"}, {Name: "reflect"}, {Name: "remember"}}
	worked := append([]heartbeat.Phase{}, idle...)
	worked[3] = heartbeat.Phase{Name: "advance", Considered: 4, Done: 2, Failed: 1, Left: 1, Tokens: 12345, DurationMS: 1500}
	const id = "hb_0mwpsn9ll_vbajku4yo5"
	for i, r := range []struct {
		name   string
		report heartbeat.Report
	}{
		{"A beat that worked", heartbeat.Report{Outcome: heartbeat.Completed, TraceID: id, Phases: worked, Tokens: 12345, DurationMS: 1600}},
		{"One that found nothing", heartbeat.Report{Outcome: heartbeat.Idle, TraceID: id, Phases: idle, DurationMS: 12}},
		{"One that was skipped", heartbeat.Report{Outcome: heartbeat.Skipped, Reason: "a person works in operate", Holder: "me", TraceID: id, Phases: idle, DurationMS: 2}},
		{"Two workspaces", heartbeat.Report{Workspaces: []heartbeat.Report{
			{Workspace: "a", Outcome: heartbeat.Completed, TraceID: id, Phases: worked}, {Workspace: "b", Outcome: heartbeat.Duplicate, Slot: "s", TraceID: id}}}},
		{"A tick for which nothing is due", heartbeat.Report{}},
	} {
		p, out := sheet(0)
		printReport(p, "lanekeeper", r.report, nil)
		if strings.HasPrefix(out.String(), "\n") || strings.Contains(out.String(), "0 done, 0 failed") {
			t.Errorf("%d: an empty line or zeros:\n%s", i, out)
		}
		fmt.Fprintf(&all, "## %s\n\n%s\n", r.name, out)
	}
	golden(t, "trigger.golden", all.String())
}
