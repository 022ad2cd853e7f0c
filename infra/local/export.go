package main

import (
	"bytes"
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
	{"activity", []string{"activity"}},
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
		return (&export{ask: ask, out: c.out}).write(ctx)
	}
}

// export prints a workspace as one JSON object. It reads page by page, so that a large workspace
// takes no memory; rows that are written meanwhile may be missing.
type export struct {
	ask     *operator
	out     io.Writer
	threads []string
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
		if err := e.list(ctx, x.field, x.paths); err != nil {
			return err
		}
	}
	paths := make([]string, 0, len(e.threads))
	for _, id := range e.threads {
		paths = append(paths, "threads/"+id+"/messages")
	}
	if err := e.list(ctx, "messages", paths); err != nil {
		return err
	}
	if _, err := io.WriteString(e.out, "\n}\n"); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// list prints all items of listings as one field. Messages get the id of their thread.
func (e *export) list(ctx context.Context, field string, paths []string) error {
	if _, err := fmt.Fprintf(e.out, ",\n%q: [", field); err != nil {
		return fmt.Errorf("export %s: %w", field, err)
	}
	before := "\n"
	for i, path := range paths {
		for cursor := ""; ; {
			var page struct {
				Items      []json.RawMessage `json:"items"`
				NextCursor *string           `json:"nextCursor"`
			}
			if _, err := e.ask.ask(ctx, http.MethodGet, "/api/v1/"+withQuery(path, cursor), nil, &page); err != nil {
				return err
			}
			for _, item := range page.Items {
				if field == "messages" {
					item = append([]byte(`{"threadId":"`+e.threads[i]+`",`), bytes.TrimPrefix(item, []byte("{"))...)
				}
				if field == "threads" {
					var thread struct{ ID string }
					if err := json.Unmarshal(item, &thread); err != nil {
						return fmt.Errorf("export %s: %w", field, err)
					}
					e.threads = append(e.threads, thread.ID)
				}
				if _, err := fmt.Fprintf(e.out, "%s%s", before, item); err != nil {
					return fmt.Errorf("export %s: %w", field, err)
				}
				before = ",\n"
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
	}
	if _, err := io.WriteString(e.out, "]"); err != nil {
		return fmt.Errorf("export %s: %w", field, err)
	}
	return nil
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
