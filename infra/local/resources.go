package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A resource is one of the API's that a verb lists, shows and changes.
type resource struct {
	name    string
	about   string
	columns []string // of a listing
	actions []string // POST /{id}/{action}
}

// resources are those with a verb of their own.
func resources() []resource {
	return []resource{
		{"objectives", "what agents work towards", []string{"id", "priority", "status", "title"}, []string{"pause", "resume", "complete"}},
		{"skills", "what agents can do", []string{"name", "kind", "scope", "enabled", "disabledReason"}, []string{"enable", "disable", "run", "health"}},
		{"automations", "skills that run by themselves", []string{"id", "name", "skill", "enabled", "nextRunAt", "lastStatus"}, []string{"enable", "disable", "run"}},
		{"memories", "what agents remember", []string{"id", "category", "importance", "content"}, nil},
		{"approvals", "calls that wait for a person", []string{"id", "skill", "status", "requestedAt"}, []string{"approve", "reject"}},
		{"activity", "what agents did", []string{"createdAt", "surface", "skill", "status", "traceId"}, nil},
		{"executions", "runs, and how they ended", []string{"id", "surface", "status", "subject", "traceId"}, nil},
		{"traces", "what was begun, newest first", []string{"startedAt", "surface", "agent", "status", "traceId"}, nil},
		{"threads", "conversations, and who has them", []string{"id", "channel", "address", "queued"}, []string{"force-unlock", "outbox"}},
		{"heals", "what self-healing took out of use", []string{"id", "skill", "code", "status", "probeAt"}, []string{"undo"}},
		{"kill-switches", "what people have stopped", []string{"id", "scope", "target", "reason", "setBy", "releasedBy"}, []string{"release"}},
		{"circuits", "models that are not asked for now; delete resets one", []string{"name", "state", "reason", "until"}, nil},
		{"budgets", "what may be spent", []string{"id", "scope", "scopeId", "allocated", "remaining"}, []string{"projection"}},
		{"workspaces", "the tenants", []string{"id", "slug", "name", "role"}, nil},
		{"members", "who belongs to the workspace", []string{"userId", "email", "role"}, nil},
		{"api-keys", "the keys of programs and sites", []string{"id", "name", "kind", "role", "prefix", "revokedAt"}, nil},
	}
}

// reads are the actions that only ask.
var reads = []string{"health", "outbox", "projection"}

// usage is what a resource's verb takes.
func (r resource) usage() string {
	more := ""
	if len(r.actions) > 0 {
		more = " | " + strings.Join(r.actions, "|") + " ID [JSON]"
	}
	if r.name == "threads" {
		more += " | resend ID MESSAGE"
	}
	return "[list [NAME=VALUE …] | show ID | create JSON | edit ID JSON | delete ID" + more + "]"
}

// verb is how the command does it: through the API's own handler, in this process.
func (r resource) verb() verb {
	return verb{r.name, r.usage(), r.about, func(flags *flag.FlagSet) action {
		ws := workspaceFlag(flags)
		return func(ctx context.Context, c *console, args []string) error {
			if len(args) == 0 {
				args = []string{"list"}
			}
			method, path, body, err := r.request(args)
			if err != nil {
				return err
			}
			core, ask, err := c.operate(ctx, db.Workspace(*ws))
			if err != nil {
				return err
			}
			defer core.DB.Close()
			var all json.RawMessage
			if _, err = ask.ask(ctx, method, path, body, &all); err != nil {
				return err
			}
			return c.answer(all, func(w io.Writer) { r.print(w, args[0], all) })
		}
	}}
}

// request is what arguments ask the API for.
func (r resource) request(args []string) (method, path string, body any, err error) {
	path = "/api/v1/" + r.name
	id := func() string { return path + "/" + url.PathEscape(args[1]) }
	switch what := args[0]; {
	case what == "list":
		query := url.Values{"limit": {"200"}}
		for _, a := range args[1:] {
			name, value, ok := strings.Cut(a, "=")
			if !ok {
				return "", "", nil, misused("%s list takes filters such as status=active", r.name)
			}
			query.Set(name, value)
		}
		return http.MethodGet, path + "?" + query.Encode(), nil, nil
	case what == "show" && len(args) == 2:
		return http.MethodGet, id(), nil, nil
	case what == "delete" && len(args) == 2:
		return http.MethodDelete, id(), nil, nil
	case what == "create" && len(args) == 2:
		body, err = document(args[1])
		return http.MethodPost, path, body, err
	case what == "edit" && len(args) == 3:
		body, err = document(args[2])
		return http.MethodPatch, id(), body, err
	case r.name == "threads" && what == "resend" && len(args) == 3:
		return http.MethodPost, id() + "/outbox/" + url.PathEscape(args[2]) + "/resend", json.RawMessage("{}"), nil
	case slices.Contains(reads, what) && slices.Contains(r.actions, what) && len(args) == 2:
		return http.MethodGet, id() + "/" + what, nil, nil
	case slices.Contains(r.actions, what) && (len(args) == 2 || len(args) == 3):
		body = json.RawMessage("{}")
		if len(args) == 3 {
			body, err = document(args[2])
		}
		return http.MethodPost, id() + "/" + what, body, err
	}
	return "", "", nil, misused("%s takes %s", r.name, r.usage())
}

// document is JSON from the command line, or from standard input for "-".
func document(text string) (json.RawMessage, error) {
	if text == "-" {
		const most = 1 << 20
		raw, err := io.ReadAll(io.LimitReader(os.Stdin, most+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		text = string(raw)
	}
	if !json.Valid([]byte(text)) {
		return nil, misused("expected JSON, such as '{\"reason\": \"…\"}', or - for standard input")
	}
	return json.RawMessage(text), nil
}

// print tells an answer to a person: a listing as a table, the rest as it is.
func (r resource) print(w io.Writer, what string, answer json.RawMessage) {
	var page struct {
		Items      []map[string]any `json:"items"`
		NextCursor *string          `json:"nextCursor"`
	}
	switch {
	case len(answer) == 0:
		fmt.Fprintln(w, "Done.")
	case what != "list" || json.Unmarshal(answer, &page) != nil:
		var indented strings.Builder
		enc := json.NewEncoder(&indented)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		_ = enc.Encode(answer) // it was decoded before
		fmt.Fprint(w, indented.String())
	case len(page.Items) == 0:
		fmt.Fprintf(w, "There are no %s.\n", r.name)
	default:
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, strings.ToUpper(strings.Join(r.columns, "\t")))
		for _, item := range page.Items {
			cells := make([]string, len(r.columns))
			for i, column := range r.columns {
				if v := item[column]; v != nil {
					cells[i] = clip(clean(fmt.Sprint(v)))
				}
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		_ = table.Flush() // as with Fprint, nobody is left to tell
		if page.NextCursor != nil {
			fmt.Fprintf(w, "… and more: %s list cursor=%s\n", r.name, *page.NextCursor)
		}
	}
}

// clip keeps a cell of a table short.
func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
