package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// orLogs adds two words to the verb of tasks. logs prints the log as lines, the oldest first, and can follow
// it. why answers with a sentence.
func orLogs(others func(*flag.FlagSet) action) func(*flag.FlagSet) action {
	return func(flags *flag.FlagSet) action {
		follow := flags.Bool("f", false, "logs: go on until the task has ended, or until Ctrl-C")
		other := others(flags)
		return func(ctx context.Context, c *console, args []string) error {
			if *follow && (len(args) != 2 || args[0] != "logs") {
				return misused("-f goes with logs ID only, such as: lanekeeper tasks logs -f ID")
			}
			ws := db.Workspace(flags.Lookup("workspace").Value.String())
			switch {
			case len(args) == 2 && args[0] == "logs" && (*follow || !c.json):
				return c.taskLogs(ctx, ws, args[1], *follow)
			case len(args) == 2 && args[0] == "why" && !c.json:
				return c.whyTask(ctx, ws, args[1])
			}
			return other(ctx, c, args)
		}
	}
}

// next says what a person does after an answer that leads nowhere by itself: a task that has no agent, and an
// empty listing beside the workspace of the demo.
func (c *console) next(ctx context.Context, core *app.Core, ask *operator, r resource, word string, answer json.RawMessage) error {
	if c.json {
		return nil
	}
	if r.name == "tasks" && word == "create" {
		return c.noAgent(ctx, core, ask)
	}
	if word != "list" || ask.workspace != workspace.Default {
		return nil
	}
	var page struct{ Items []json.RawMessage }
	if err := json.Unmarshal(answer, &page); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if len(page.Items) > 0 {
		return nil
	}
	workspaces, err := workspace.New(core.DB)
	if err != nil {
		return err
	}
	if name, err := shopIs(ctx, workspaces); err != nil || name == "" {
		return err
	}
	fmt.Fprintf(c.err, "The demo has a workspace of its own: %s %s --workspace %s\n", c.name, r.name, workspace.DemoSlug)
	return nil
}

// orField returns a JSON object with the text in a field. It returns the text unchanged if that is an object
// already or names standard input, or if field is empty.
func orField(text, field string) string {
	if field == "" || strings.HasPrefix(strings.TrimSpace(text), "{") || text == "-" {
		return text
	}
	raw, _ := json.Marshal(map[string]string{field: text}) //nolint:errchkjson // a text always is JSON
	return string(raw)
}

// taskLog is a row of a task's log.
type taskLog struct {
	ID, Level, Event, Message, PreviousStatus, NewStatus, StackTrace, Actor string
	Attempt                                                                 int
	CreatedAt                                                               time.Time
}

// pollLogs is the delay between two looks at a log that is followed.
const pollLogs = 500 * time.Millisecond

// taskLogs prints the log of a task, the oldest row first. With follow it goes on until the task has
// ended for good, or until ctx ends.
func (c *console) taskLogs(ctx context.Context, ws db.Workspace, id string, follow bool) error {
	core, ask, err := c.operate(ctx, ws)
	if err != nil {
		return err
	}
	defer core.DB.Close()
	path := "/api/v1/agent-tasks/" + url.PathEscape(id)
	p := newPaper(c.out, c.environ)
	for seen := map[string]bool{}; ; {
		var is struct {
			Status    string
			Cancelled bool
		}
		if _, err := ask.ask(ctx, http.MethodGet, path, nil, &is); err != nil {
			return unlessOver(ctx, err)
		}
		rows, err := unseenLogs(ctx, ask, path, seen)
		if err != nil {
			return unlessOver(ctx, err)
		}
		for _, raw := range rows {
			if err := c.printLog(p, raw); err != nil {
				return err
			}
		}
		if ended := slices.Contains([]string{"COMPLETED", "FAILED", "ARCHIVED"}, is.Status) || is.Cancelled; ended || !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollLogs):
		}
	}
}

// unlessOver returns the error of a request, unless a person has ended the verb.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the verb was ended
	}
	return err
}

// unseenLogs reads the rows that are not in seen, adds them, and returns the oldest first. A page
// without an unseen row ends it: only the newest rows of a log are new.
func unseenLogs(ctx context.Context, ask *operator, path string, seen map[string]bool) (rows []json.RawMessage, err error) {
	for cursor := ""; ; {
		var page struct {
			Items      []json.RawMessage
			NextCursor string
		}
		if _, err := ask.ask(ctx, http.MethodGet, path+"/logs?limit=200&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return nil, err
		}
		before := len(rows)
		for _, raw := range page.Items {
			var row taskLog
			if err := json.Unmarshal(raw, &row); err != nil {
				return nil, fmt.Errorf("read a row of the log: %w", err)
			}
			if !seen[row.ID] {
				seen[row.ID] = true
				rows = append(rows, raw)
			}
		}
		if cursor = page.NextCursor; cursor == "" || len(rows) == before {
			slices.Reverse(rows)
			return rows, nil
		}
	}
}

// printLog prints one row: as a line, or as it is.
func (c *console) printLog(p paper, raw json.RawMessage) error {
	if c.json {
		var line bytes.Buffer
		if err := json.Compact(&line, raw); err != nil {
			return fmt.Errorf("read a row of the log: %w", err)
		}
		fmt.Fprintln(c.out, line.String())
		return nil
	}
	var row taskLog
	if err := json.Unmarshal(raw, &row); err != nil {
		return fmt.Errorf("read a row of the log: %w", err)
	}
	level := map[string]style{"WARN": yellow, "ERROR": red, "CRITICAL": red}[row.Level]
	change := ""
	if row.PreviousStatus != "" && row.NewStatus != "" {
		change = row.PreviousStatus + " → " + row.NewStatus + "  "
	}
	about := "  " + row.Actor
	if row.Attempt > 0 {
		about += fmt.Sprintf(", attempt %d", row.Attempt)
	}
	p.print(true, span{dim, row.CreatedAt.Local().Format(time.DateTime) + "  "}, span{level, fmt.Sprintf("%-8s  ", row.Level)},
		span{bold, change}, span{plain, row.Message}, span{dim, about})
	for line := range strings.Lines(row.StackTrace) {
		p.print(true, span{dim, "    " + strings.TrimRight(line, "\n")})
	}
	return nil
}

// whyTask prints why a task is not running: in a sentence, and then each reason.
func (c *console) whyTask(ctx context.Context, ws db.Workspace, id string) error {
	core, ask, err := c.operate(ctx, ws)
	if err != nil {
		return err
	}
	defer core.DB.Close()
	var why struct {
		Summary string
		Reasons []struct{ Code, Message string }
	}
	if _, err := ask.ask(ctx, http.MethodGet, "/api/v1/agent-tasks/"+url.PathEscape(id)+"/why", nil, &why); err != nil {
		return err
	}
	p := newPaper(c.out, c.environ)
	p.print(true, span{bold, strings.ToUpper(why.Summary[:1]) + why.Summary[1:] + "."})
	for _, r := range why.Reasons {
		p.print(true, span{dim, "  " + r.Code + ": "}, span{plain, r.Message})
	}
	return c.noAgent(ctx, core, ask)
}

// noAgent says how to register an agent if the workspace has none: tasks wait for one.
func (c *console) noAgent(ctx context.Context, core *app.Core, ask *operator) error {
	agents, err := agent.New(core.DB, core.IDs)
	if err != nil {
		return err
	}
	if has, err := hasAgent(ctx, agents, ask.workspace); has || err != nil {
		return err
	}
	in := ""
	if ask.workspace != workspace.Default {
		in = " --workspace " + string(ask.workspace)
	}
	fmt.Fprintf(c.err, "\nThere is no agent yet that could do it. The built-in worker becomes one with:\n  %s %s%s\n",
		c.name, registerWorker, in)
	return nil
}
