package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// exported lists what export prints, as the fields of its object with the paths of their listings.
var exported = []struct {
	field string
	paths []string
}{
	{"members", []string{"members"}},
	{"projects", []string{"projects", "projects?archived=true"}},
	{"milestones", []string{"milestones", "milestones?archived=true"}},
	{"objectives", []string{"objectives"}},
	{"agents", []string{"agents"}},
	{"tasks", []string{"agent-tasks"}},
	{"skills", []string{"skills"}},
	{"automations", []string{"automations"}},
	{"personas", []string{"personas"}},
	{"memories", []string{"memories?expired=true"}},
	{"webhookSources", []string{"webhook-sources"}},
	{"webhookEndpoints", []string{"webhook-endpoints"}},
	{"deliveriesReceived", []string{"deliveries?direction=inbound"}},
	{"deliveriesSent", []string{"deliveries?direction=outbound"}},
	{"threads", []string{"threads"}},
	{"approvals", []string{"approvals"}},
	{"heals", []string{"heals"}},
	{"killSwitches", []string{"kill-switches"}},
	{"budgets", []string{"budgets"}},
	{"modelTiers", []string{"model-tiers"}},
	{"secrets", []string{"secrets"}}, // their names
	{"apiKeys", []string{"api-keys"}},
	{"siteKeys", []string{"site-keys"}},
	{"executions", []string{"executions"}},
	{"traces", []string{"traces"}}, // with the steps of their executions
	{"usage", []string{"usage?by=day,model"}},
	{"activity", []string{"activity"}},
	{"audit", []string{"audit"}},
}

// shownAlone are the fields whose listings lack what one alone has, with the query that asks for it.
var shownAlone = map[string]string{"tasks": "", "executions": "", "traces": "?include=steps"}

// ofRows lists what rows of other fields have: the field, the field of those rows, and what names the row.
var ofRows = []struct{ field, of, as, path string }{
	{"messages", "threads", "threadId", "threads/%s/messages"},
	{"steps", "objectives", "objectiveId", "objectives/%s/steps"},
	{"taskLogs", "tasks", "taskId", "agent-tasks/%s/logs"},
	{"personaVersions", "personas", "persona", "personas/%s/versions"},
}

func exportVerb(flags *flag.FlagSet) action {
	ws := workspaceFlag(flags)
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("export takes no arguments: it prints to standard output, such as: lanekeeper export > shop.json")
		}
		core, ask, err := c.operate(ctx, db.Workspace(*ws))
		if err != nil {
			return err
		}
		defer core.DB.Close()
		return (&export{ask: ask, out: c.out, rows: map[string][]string{}}).write(ctx)
	}
}

// export prints a workspace as one JSON object. It reads page by page, so that a large workspace
// takes little memory; rows that are written meanwhile may be missing.
type export struct {
	ask  *operator
	out  io.Writer
	rows map[string][]string // ids or names of the printed rows that have rows of their own, by field
}

func (e *export) write(ctx context.Context) error {
	var settings json.RawMessage
	if _, err := e.ask.ask(ctx, http.MethodGet, "/api/v1/workspaces/"+url.PathEscape(string(e.ask.workspace)), nil, &settings); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.out, "{\n\"exportedAt\": %q,\n\"workspace\": %s",
		time.Now().UTC().Format(time.RFC3339), bytes.TrimSpace(settings)); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, x := range exported {
		if err := e.field(x.field, func(print printer) error {
			for _, path := range x.paths {
				err := e.list(ctx, path, func(item json.RawMessage) error { return e.row(ctx, x.field, path, item, print) })
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, x := range ofRows {
		if err := e.field(x.field, func(print printer) error {
			for _, id := range e.rows[x.of] {
				head := fmt.Appendf(nil, "{%q:%q,", x.as, id)
				err := e.list(ctx, fmt.Sprintf(x.path, url.PathEscape(id)), func(item json.RawMessage) error {
					return print(append(head[:len(head):len(head)], bytes.TrimPrefix(item, []byte("{"))...))
				})
				if err != nil && !refusedWith(err, http.StatusNotFound) { // it was deleted since it was listed
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(e.out, "\n}\n"); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// printer prints one item of a field.
type printer func(item json.RawMessage) error

// field prints a field, whose items fill prints.
func (e *export) field(name string, fill func(printer) error) error {
	if _, err := fmt.Fprintf(e.out, ",\n%q: [", name); err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	before := "\n"
	err := fill(func(item json.RawMessage) error {
		if _, err := fmt.Fprintf(e.out, "%s%s", before, item); err != nil {
			return fmt.Errorf("export %s: %w", name, err)
		}
		before = ",\n"
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(e.out, "]"); err != nil {
		return fmt.Errorf("export %s: %w", name, err)
	}
	return nil
}

// row prints a row of a listing, and notes what names it.
func (e *export) row(ctx context.Context, field, path string, item json.RawMessage, print printer) error {
	var named struct{ ID, Name, TraceID string }
	if err := json.Unmarshal(item, &named); err != nil {
		return fmt.Errorf("export %s: %w", field, err)
	}
	for _, x := range ofRows {
		if x.of == field {
			e.rows[field] = append(e.rows[field], cmp.Or(named.ID, named.Name))
		}
	}
	if query, alone := shownAlone[field]; alone {
		var whole json.RawMessage
		_, err := e.ask.ask(ctx, http.MethodGet, "/api/v1/"+path+"/"+cmp.Or(named.ID, named.TraceID)+query, nil, &whole)
		if err != nil && !refusedWith(err, http.StatusNotFound) { // it was deleted since it was listed
			return err
		}
		if err == nil {
			item = bytes.TrimSpace(whole)
		}
	}
	return print(item)
}

// list calls do for all items of a listing.
func (e *export) list(ctx context.Context, path string, do func(json.RawMessage) error) error {
	for cursor := ""; ; {
		var page struct {
			Items      []json.RawMessage `json:"items"`
			NextCursor *string           `json:"nextCursor"`
		}
		if _, err := e.ask.ask(ctx, http.MethodGet, "/api/v1/"+withQuery(path, cursor), nil, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := do(item); err != nil {
				return err
			}
		}
		if page.NextCursor == nil {
			return nil
		}
		cursor = *page.NextCursor
	}
}

// withQuery asks a listing for a page.
func withQuery(path, cursor string) string {
	query := url.Values{"limit": {"200"}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if strings.Contains(path, "?") {
		return path + "&" + query.Encode()
	}
	return path + "?" + query.Encode()
}
