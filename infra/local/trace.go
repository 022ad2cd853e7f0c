package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/db"
	executions "github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// told is the part of the API's trace that is printed.
type told struct {
	TraceID    string      `json:"traceId"`
	Status     string      `json:"status"`
	StartedAt  time.Time   `json:"startedAt"`
	DurationMS int64       `json:"durationMs"`
	Executions []execution `json:"executions"`
	Activities []act       `json:"activities"`
	Steps      []step      `json:"steps"`
	Holds      []struct {
		Lane      string     `json:"lane"`
		ExpiresAt time.Time  `json:"expiresAt"`
		EndedAt   *time.Time `json:"endedAt"`
	} `json:"holds"`
	Usage usage `json:"usage"`
}

// act is the part of an activity that is printed.
type act struct {
	SkillName    string          `json:"skillName"`
	Status       string          `json:"status"`
	ErrorMessage string          `json:"errorMessage"`
	TokenUsage   *usage          `json:"tokenUsage"`
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	DurationMS   int64           `json:"durationMs"`
	ExecutionID  string          `json:"executionId"`
	CreatedAt    time.Time       `json:"createdAt"`
}

type execution struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	Title   string `json:"title"`
	Parent  string `json:"parentExecutionId"`
	Subject string `json:"subject"`
	Status  string `json:"status"`
	Attempt int    `json:"attempt"`
	Input   struct {
		Task string `json:"task"`
	} `json:"input"`
	ErrorMessage string     `json:"errorMessage"`
	TokenUsage   usage      `json:"tokenUsage"`
	CreatedAt    time.Time  `json:"createdAt"`
	EndedAt      *time.Time `json:"endedAt"`
}

type usage struct {
	TotalTokens int64 `json:"totalTokens"`
}

func traceVerb(flags *flag.FlagSet) action {
	ws := workspaceFlag(flags)
	full := flags.Bool("full", false, "show the system prompts and all messages too")
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) != 1 {
			return misused("trace takes the id of one trace, such as hb_0mwpsn9ll_vbajku4yo5")
		}
		id, _, err := trace.Parse(args[0])
		if err != nil {
			return misused("%q is %s", clean(args[0]), err)
		}
		core, ask, err := c.operate(ctx, db.Workspace(*ws))
		if err != nil {
			return err
		}
		defer core.DB.Close()
		var t told
		path := "/api/v1/traces/" + string(id)
		if *full {
			path += "?include=steps"
		}
		all, err := ask.ask(ctx, http.MethodGet, path, nil, &t)
		if refusedWith(err, http.StatusNotFound) {
			if *ws != string(workspace.Default) {
				return fmt.Errorf("nothing is known of trace %s in workspace %s", id, clean(*ws))
			}
			if ask, err = c.elsewhere(ctx, core, id); err == nil {
				all, err = ask.ask(ctx, http.MethodGet, path, nil, &t)
			}
		}
		if err != nil {
			return err
		}
		titles, err := titlesOf(ctx, core, ask.workspace, t.Executions)
		if err != nil {
			return err
		}
		return c.answer(all, func(w io.Writer) { t.print(newPaper(w, c.environ), titles) })
	}
}

// elsewhere returns an operator in the workspace that has a trace, and says which one that is. The log of the runner tells
// of all workspaces.
func (c *console) elsewhere(ctx context.Context, core *app.Core, id trace.ID) (*operator, error) {
	workspaces, err1 := workspace.New(core.DB)
	runs, err2 := executions.New(core.DB)
	log, err3 := activity.New(core.DB, core.IDs)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	all, err := workspaces.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, ws := range all {
		var b db.Batch
		total, acts := runs.TotalOfTrace(&b, id), log.OfTrace(&b, id)
		if err := core.DB.Read(ctx, ws, &b); err != nil {
			return nil, fmt.Errorf("look for a trace: %w", err)
		}
		if total.Executions+len(*acts) == 0 {
			continue
		}
		is, err := workspaces.Get(ctx, ws)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(c.err, "It is in workspace %s.\n", clean(is.Name))
		return newOperator(ctx, core, ws)
	}
	return nil, fmt.Errorf("nothing is known of trace %s in any workspace", id)
}

func workspaceFlag(flags *flag.FlagSet) *string {
	return flags.String("workspace", string(workspace.Default), "the `ID` or the name of the workspace")
}

// titlesOf returns, by lane, the titles of the objectives and the names of the automations that the
// executions work on. It reads them in one round trip.
func titlesOf(ctx context.Context, core *app.Core, ws db.Workspace, executions []execution) (map[string]string, error) {
	objectives, err := objective.New(core.DB, core.IDs)
	if err != nil {
		return nil, err
	}
	automations, err := automation.New(core.DB, core.IDs)
	if err != nil {
		return nil, err
	}
	var b db.Batch
	asked := map[string]bool{}
	var read []func() (subject, title string)
	for _, e := range executions {
		kind, id, _ := strings.Cut(e.Subject, ":")
		if asked[e.Subject] {
			continue
		}
		switch {
		case kind == "objective":
			found := objectives.GetIn(&b, id)
			read = append(read, func() (string, string) {
				if len(*found) == 0 {
					return e.Subject, ""
				}
				return e.Subject, (*found)[0].Title
			})
		case kind == "automation" && e.Title == "":
			found := automations.GetIn(&b, id)
			read = append(read, func() (string, string) {
				if len(*found) == 0 {
					return e.Subject, ""
				}
				return e.Subject, (*found)[0].Name
			})
		default:
			continue
		}
		asked[e.Subject] = true
	}
	titles := map[string]string{}
	if len(read) == 0 {
		return titles, nil
	}
	if err := core.DB.Read(ctx, ws, &b); err != nil {
		return nil, fmt.Errorf("read what a trace's executions work on: %w", err)
	}
	for _, one := range read {
		if subject, title := one(); title != "" {
			titles[subject] = title
		}
	}
	return titles, nil
}

// entry is one line of a story.
type entry struct {
	at      time.Time
	status  string
	took    time.Duration
	tokens  int64
	depth   int
	what    string
	message string
	step    *step // of a journal; nil: an activity or an execution
}

// print prints the story in the order of time. Lines that belong to an execution are indented under
// it.
func (t told) print(p paper, titles map[string]string) {
	p.print(true, span{bold, "trace "}, span{cyan, t.TraceID}, statusSpan(" "+t.Status),
		span{dim, " · " + join(count(t.Usage.TotalTokens, "token"), took(time.Duration(t.DurationMS)*time.Millisecond))})
	p.print(true, span{dim, "started " + t.StartedAt.Local().Format("2006-01-02 15:04:05 -07:00")})
	p.print(true)
	depths := map[string]int{}
	var entries []entry
	for _, e := range t.Executions { // parents come first
		if depth, child := depths[e.Parent]; child {
			depths[e.ID] = depth + 1
		} else {
			depths[e.ID] = 0
		}
		entries = append(entries, e.entry(depths[e.ID], titles))
	}
	for _, a := range t.Activities {
		e := entry{
			at: a.CreatedAt, status: statusWord(a.Status), took: time.Duration(a.DurationMS) * time.Millisecond,
			what: a.what(), message: a.message(),
		}
		if depth, known := depths[a.ExecutionID]; known {
			e.depth = depth + 1
		}
		if a.TokenUsage != nil {
			e.tokens = a.TokenUsage.TotalTokens
		}
		entries = append(entries, e)
	}
	for _, s := range t.Steps {
		entries = append(entries, entry{at: s.CreatedAt, depth: depths[s.ExecutionID] + 1, step: &s})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	if p.narrow() {
		p.print(true, span{dim, fmt.Sprintf("%-8s  %-9s  %s", "at", "status", "what")})
	} else {
		p.print(true, span{dim, fmt.Sprintf("%-12s  %-9s  %8s  %7s  %s", "at", "status", "took", "tokens", "what")})
	}
	for _, e := range entries {
		e.print(p)
	}
	for _, l := range t.Holds {
		if l.EndedAt != nil {
			continue
		}
		p.print(true, span{yellow, "holds lane " + l.Lane}, span{plain, " until " + l.ExpiresAt.Local().Format(time.TimeOnly) + " at the latest"})
	}
}

func (e execution) entry(depth int, titles map[string]string) entry {
	what := cmp.Or(titles[e.Subject], aboutOf(e.Title, e.Subject, e.Agent))
	if e.Input.Task != "" && e.Input.Task != what {
		what = e.Input.Task + ": " + what
	}
	if e.Attempt > 1 {
		what += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	line := entry{at: e.CreatedAt, status: e.Status, depth: depth, tokens: e.TokenUsage.TotalTokens, what: what, message: e.ErrorMessage}
	if e.EndedAt != nil {
		line.took = e.EndedAt.Sub(e.CreatedAt)
	}
	return line
}

// aboutOf describes what an execution works on: its title, or the kind of its subject. It never
// shows an id.
func aboutOf(title, subject, agent string) string {
	if kind, id, ok := strings.Cut(subject, ":"); ok && uuid.Validate(id) == nil {
		subject = kind
	}
	if title == "" && (subject == "" || subject == "execution") {
		if agent != "" {
			return "execution of " + agent
		}
		return "execution"
	}
	return cmp.Or(title, subject)
}

// wide is the smallest width, in columns, at which a trace shows durations.
const wide = 90

func (p paper) narrow() bool { n := p.width(); return n > 0 && n < wide }

func (e entry) print(p paper) {
	indent := 44 + 2*e.depth
	if p.narrow() {
		indent = 21 + 2*min(e.depth, 3)
	}
	if e.step != nil {
		e.step.print(p, indent)
		return
	}
	tokens := ""
	if e.tokens > 0 {
		tokens = thousands(e.tokens)
	}
	head := []span{
		{dim, e.at.Local().Format("15:04:05.000") + "  "}, statusSpan(fmt.Sprintf("%-9s", e.status)),
		{dim, fmt.Sprintf("  %8s  %7s  ", took(e.took), tokens)},
	}
	if p.narrow() {
		head = []span{{dim, e.at.Local().Format(time.TimeOnly) + "  "}, statusSpan(fmt.Sprintf("%-9s", e.status)), {plain, "  "}}
	}
	p.paragraph(indent, plain, e.what, head...)
	if e.message != "" {
		p.paragraph(indent, yellow, e.message)
	}
}

// statusWord returns a short form of a status for the narrow column of the story.
func statusWord(status string) string {
	if status == string(activity.PendingApproval) {
		return "waiting"
	}
	return status
}

func statusSpan(status string) span {
	switch strings.TrimSpace(status) {
	case "completed", "success", "running", "ok":
		return span{green, status}
	case "failed", "error", "fail":
		return span{red, status}
	}
	return span{yellow, status}
}
