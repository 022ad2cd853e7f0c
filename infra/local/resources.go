package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// A resource is a resource of the API that a verb lists, shows and changes.
type resource struct {
	name    string
	about   string
	columns []column // of a listing
	does    []string // words for all of them or one; the first is the default
	actions []string // /{id}/{action}: POST, but for reads
}

// path returns the resource's path in the API.
func (r resource) path() string {
	if r.name == "tasks" {
		return "/api/v1/agent-tasks"
	}
	return "/api/v1/" + r.name
}

// resources lists the resources that have a verb.
func resources() []resource {
	words := strings.Fields
	return []resource{
		{"objectives", "what agents work towards", heads("PRIORITY=priority", "STATUS=status", "TITLE=title", "ID=id:id"),
			words("list show create edit delete"), words("pause resume complete steps")},
		{"projects", "what tasks and budgets belong to", heads("NAME=name", "CREATED=createdAt:time", "ID=id:id"),
			words("list show create edit delete"), nil},
		{"milestones", "the milestones of projects", heads("NAME=name", "DUE=dueAt:time", "PROJECT=projectId:id", "ID=id:id"),
			words("list show create edit delete"), nil},
		{"tasks", "durable work for agents",
			heads("STATUS=status", "PRIORITY=priority", "DONE %=progressPercent", "TITLE=title", "ID=id:id"),
			words("list show create edit bulk"),
			words("why graph logs cancel retry archive dependencies progress complete fail usage validate-usage")},
		{"agents", "who works on tasks",
			heads("NAME=name", "STATUS=status", "HEALTH=health", "TASKS=openTasks", "SEEN=lastSeenAt:time", "ID=id:id"),
			words("list show register"), words("health tasks token terminate heartbeat claim")},
		{"coordinator", "who gives tasks to agents, and how it is",
			heads("WHEN=createdAt:time", "LEVEL=level", "EVENT=event", "WHAT=message"), words("status logs recover commands"), nil},
		{"skills", "what agents can do", heads("NAME=name:name", "KIND=kind", "FOR=scope", "IN USE=enabled:yes", "WHY NOT=disabledReason"),
			words("list show create edit delete health"), words("enable disable run health")},
		{"automations", "skills that run by themselves",
			heads("NAME=name", "SKILL=skill", "IN USE=enabled:yes", "NEXT RUN=nextRunAt:time", "LAST RUN=lastStatus", "ID=id:id"),
			words("list show create edit delete"), words("enable disable run")},
		{"webhook-sources", "who may send webhooks, and what they do",
			heads("NAME=name:name", "KIND=kind", "ADDRESS=path", "IN USE=enabled:yes", "REJECTED=rejected:count", "ID=id:id"),
			words("list show create edit delete"), words("rotate-secret")},
		{"webhook-endpoints", "who is told of events by webhooks",
			heads("URL=url", "IN USE=enabled:yes", "WHY NOT=disabledReason", "FAILURES=failures:count", "SINCE=failingSince:time", "ID=id:id"),
			words("list show create edit delete"), words("rotate-secret test")},
		{"deliveries", "webhooks that came, and with direction=outbound those that went",
			heads("WHEN=createdAt:time", "SOURCE=source", "EVENT=event", "STATUS=status", "ANSWER=statusCode", "DID=action", "ID=id:id"),
			words("list show bulk"), words("redeliver")},
		{"memories", "what agents remember", heads("CATEGORY=category", "IMPORTANCE=importance", "CONTENT=content", "ID=id:id"),
			words("list show create edit delete bulk"), nil},
		{"memory-categories", "what kinds of things they remember", heads("CATEGORY=category", "MEMORIES=count:count"), words("list"), nil},
		{"personas", "by whose words agents work",
			heads("NAME=name:name", "VERSION=version", "CALLED=displayName", "MODEL=model", "SINCE=createdAt:time"),
			words("list show put"), words("versions")},
		{"approvals", "calls that wait for a person",
			heads("SKILL=skill", "INPUT=input:data", "STATUS=status", "ASKED=requestedAt:time", "ID=id:id"),
			words("list show bulk"), words("approve reject")},
		{"activity", "what agents did",
			heads("WHEN=createdAt:time", "SURFACE=surface", "WHAT=skillName", "STATUS=status", "TRACE=traceId:id"), words("list histogram"), nil},
		{"audit", "what people and programs did by way of the API",
			heads("WHEN=createdAt:time", "WHO=by", "WHAT=action", "TO=subject", "SUMMARY=summary"), words("list"), nil},
		{"events", "what happens, as it happens, until Ctrl-C", nil, words("follow"), nil},
		{"executions", "runs, and how they ended",
			heads("BEGUN=createdAt:time", "SURFACE=surface", "STATUS=status", "TITLE=title:about", "TRACE=traceId:id", "ID=id:id"),
			words("list show create"), words("events complete fail cancel")},
		{"traces", "what was begun, newest first",
			heads("BEGUN=startedAt:time", "SURFACE=surface", "AGENT=agent", "STATUS=status", "TRACE=traceId:id"),
			words("list show"), words("replay fork")},
		{"threads", "conversations, and who has them", heads("CHANNEL=channel", "ADDRESS=address", "QUEUED=queued", "ID=id:id"),
			words("list show create resend"), words("why messages outbox lock unlock park send force-unlock")},
		{"failures", "what has failed and needs a person",
			heads("WHEN=at:time", "KIND=kind", "WHAT=title", "WHY=why:cause", "ID=id:id", "AT=at:id"), words("list dismiss"), nil},
		{"outbox", "messages that failed, to be sent again together", nil, words("bulk"), nil},
		{"lanes", "lanes, as programs without a database take them",
			heads("LANE=lane:name", "HELD BY=holder", "ENDS=expiresAt:time", "WANTED BY=wantedBy"),
			words("list history"), words("why acquire renew release force-release")},
		{"heals", "what self-healing took out of use",
			heads("SKILL=skill", "WHY=code:fault", "STATUS=status", "NEXT PROBE=probeAt:time", "ID=id:id"),
			words("list show"), words("undo")},
		{"kill-switches", "what people have stopped",
			heads("SCOPE=scope", "TARGET=target", "REASON=reason", "SET BY=setBy", "RELEASED BY=releasedBy", "ID=id:id"),
			words("list show create delete"), words("release")},
		{"circuits", "models that are not asked for now; delete resets one",
			heads("MODEL=name:name", "STATE=state", "WHY=reason", "UNTIL=until:time"), words("list delete"), nil},
		{"budgets", "what may be spent",
			heads("SCOPE=scope", "OF=scopeName|scopeId", "ALLOCATED=allocated:count", "REMAINING=remaining:count", "ID=id:id"),
			words("list show create edit reallocate"), words("projection series")},
		{"usage", "what model calls used",
			heads("WHAT=key", "CALLS=calls:count", "TOKENS IN=inputTokens:count", "TOKENS OUT=outputTokens:count",
				"TOKENS=totalTokens:count", "COST=costMicroUsd:money"),
			words("list current estimates corrections savings"), nil},
		{"model-tiers", "which model serves which kind of task",
			heads("TIER=tier:name", "MODEL=model", "1M TOKENS IN=inputMicroUsd:money", "1M TOKENS OUT=outputMicroUsd:money"),
			words("list put"), nil},
		{"secrets", "keys and passwords of skills and channels", heads("NAME=name:name", "MADE=createdAt:time", "CHANGED=updatedAt:time"),
			words("list show set delete rotate"), nil},
		{"workspaces", "the tenants", heads("NAME=name", "SLUG=slug:name", "YOUR ROLE=role", "ID=id:id"),
			words("list show create edit delete"), nil},
		{"members", "who belongs to the workspace",
			heads("E-MAIL=email", "ROLE=role", "ID=userId:id"), words("list show create edit delete"), words("sign-out")},
		{"api-keys", "the keys of programs and sites",
			heads("NAME=name", "KIND=kind", "ROLE=role", "BEGINS WITH=prefix", "REVOKED=revokedAt:time", "ID=id:id"),
			words("list show create delete"), nil},
		{"site-keys", "the keys with which visitors of web sites chat",
			heads("NAME=name", "ORIGINS=origins:list", "PERSONA=persona", "BEGINS WITH=prefix", "REVOKED=revokedAt:time", "ID=id:id"),
			words("list show create edit delete"), nil},
	}
}

// reads lists the actions that only read. Those in written change something if JSON is given, by the method
// that stands there.
var (
	reads   = []string{"health", "outbox", "projection", "graph", "why", "events", "logs", "messages", "series", "steps", "tasks", "versions"}
	written = map[string]string{
		"messages": http.MethodPost, "steps": http.MethodPut, "dependencies": http.MethodPut, "progress": http.MethodPatch,
	}
)

// texts holds, by resource and word, the field for a text that is given instead of JSON.
var texts = map[string]map[string]string{
	"tasks":      {"create": "title", "cancel": "reason", "fail": "error", "complete": "summary"},
	"objectives": {"create": "title"},
	"approvals":  {"reject": "reason"},
}

// needs reports whether an action of a resource needs JSON.
func needs(resource, action string) bool {
	switch resource {
	case "approvals":
		return action == "reject"
	case "lanes":
		return action != "why"
	}
	return false
}

// taken holds the arguments of each word, as the usage shows them.
var taken = map[string]string{
	"list": "[NAME=VALUE …]", "history": "[NAME=VALUE …]", "histogram": "[NAME=VALUE …]", "follow": "[NAME=VALUE …]",
	"show": "ID", "create": "JSON", "edit": "ID JSON", "delete": "ID",
	"register": "ID|new JSON", "reallocate": "JSON", "bulk": "JSON", "dismiss": "KIND ID AT", "resend": "ID MESSAGE",
	"set": "NAME <FILE", "put": "NAME JSON", "commands": "JSON", "rotate": "[--keep-key]",
}

// usage returns the usage of the resource's verb.
func (r resource) usage() string {
	var each []string
	for _, word := range r.does {
		each = append(each, strings.TrimSpace(word+" "+taken[word]))
	}
	var most []string
	for _, action := range r.actions {
		if needs(r.name, action) {
			each = append(each, action+" ID JSON")
		} else {
			most = append(most, action)
		}
	}
	if len(most) > 0 {
		each = append(each, strings.Join(most, "|")+" ID [JSON]")
	}
	return "[" + strings.Join(each, " | ") + "]"
}

// withThose adds to the refusal of an id, or of a name that nothing has, which command lists those that there are.
func (r resource) withThose(err error) error {
	refused, is := errors.AsType[*refusedError](err)
	if !is || r.does[0] != "list" {
		return err
	}
	malformed := slices.ContainsFunc(refused.Errors, func(f problem.FieldError) bool { return strings.HasPrefix(f.Location, "path.") })
	if refused.Status != http.StatusNotFound && !malformed {
		return err
	}
	return &hinted{err, "`lanekeeper " + r.name + "` lists those that there are."}
}

// verb returns the verb of the resource. It sends its requests to the API's handler in this process.
func (r resource) verb() verb {
	setup := func(flags *flag.FlagSet) action {
		ws := workspaceFlag(flags)
		return func(ctx context.Context, c *console, args []string) error {
			if len(args) == 0 || strings.Contains(args[0], "=") { // filters of the listing
				args = append(r.does[:1:1], args...)
			}
			method, path, body, err := r.request(c, args)
			if err != nil {
				return err
			}
			core, ask, err := c.operate(ctx, db.Workspace(*ws))
			if err != nil {
				return err
			}
			defer core.DB.Close()
			defer keepSpans(ctx, core)()
			if args[0] == "follow" || args[0] == "events" {
				return c.follow(ctx, ask, path)
			}
			var all json.RawMessage
			if _, err = ask.ask(ctx, method, path, body, &all); err != nil {
				return r.withThose(err)
			}
			again := c.again(r.name, args, *ws)
			if err := c.answer(all, func(w io.Writer) { r.print(newPaper(w, c.environ), args[0], again, all, time.Now()) }); err != nil {
				return err
			}
			if triedInVain(args[0], all) {
				return &exitError{code: exitFailed}
			}
			return c.next(ctx, core, ask, r, args[0], all)
		}
	}
	switch r.name {
	case "secrets":
		setup = orRotate(setup)
	case "tasks":
		setup = orLogs(setup)
	}
	return verb{r.name, r.usage(), r.about, setup}
}

// triedInVain reports whether a call or a delivery that was tried by hand did not succeed, as its answer says.
func triedInVain(word string, answer json.RawMessage) bool {
	var tried struct{ Status string }
	if word != "run" && word != "test" || json.Unmarshal(answer, &tried) != nil {
		return false
	}
	return tried.Status == "failed" || tried.Status == "uncertain"
}

// request converts the arguments of the verb to a request to the API.
func (r resource) request(c *console, args []string) (method, path string, body any, err error) {
	what, given := args[0], args[1:]
	at := func(parts ...string) string {
		path := r.path()
		for _, part := range parts {
			path += "/" + url.PathEscape(part)
		}
		return path
	}
	if slices.Contains(given, "") { // a variable of the shell that is not set
		return "", "", nil, misused("%s %s was given an empty text", r.name, what)
	}
	n, asks := len(given), slices.Contains(reads, what)
	if slices.Contains(r.actions, what) {
		switch {
		case n == 1 && asks:
			return http.MethodGet, at(given[0], what), nil, nil
		case n == 1 && written[what] == "" && !needs(r.name, what):
			return http.MethodPost, at(given[0], what), json.RawMessage("{}"), nil
		case n == 2 && (!asks || written[what] != ""):
			body, err = c.document(orField(given[1], texts[r.name][what]))
			return cmp.Or(written[what], http.MethodPost), at(given[0], what), body, err
		}
	}
	switch known := slices.Contains(r.does, what); {
	case !known:
	case what == "list":
		query, err := r.filters(what, given, url.Values{"limit": {"200"}})
		return http.MethodGet, at() + "?" + query, nil, err
	case what == "follow":
		query, err := r.filters(what, given, url.Values{})
		return http.MethodGet, at() + "?" + query, nil, err
	case what == "health" && n > 0:
	case what == "logs", what == "health", what == "history", what == "histogram", what == "estimates", what == "corrections", what == "savings", what == "current" && n == 0:
		query, err := r.filters(what, given, url.Values{})
		return http.MethodGet, strings.TrimSuffix(at(what)+"?"+query, "?"), nil, err
	case what == "status" && n == 0:
		return http.MethodGet, at(what), nil, nil
	case what == "recover" && n == 0:
		return http.MethodPost, at(what), json.RawMessage("{}"), nil
	case what == "commands" && n == 1:
		body, err = c.document(given[0])
		return http.MethodPost, at(what), body, err
	case what == "show" && n == 1:
		return http.MethodGet, at(given[0]), nil, nil
	case what == "delete" && n == 1:
		return http.MethodDelete, at(given[0]), nil, nil
	case what == "create" && n == 1:
		body, err = c.document(orField(given[0], texts[r.name][what]))
		return http.MethodPost, at(), body, err
	case what == "dismiss" && n == 3:
		return http.MethodPost, at(given[0], given[1], what), map[string]string{"at": given[2]}, nil
	case (what == "reallocate" || what == "bulk") && n == 1:
		body, err = c.document(given[0])
		return http.MethodPost, at(what), body, err
	case what == "edit" && n == 2:
		body, err = c.document(given[1])
		return http.MethodPatch, at(given[0]), body, err
	case what == "put" && n == 2:
		body, err = c.document(given[1])
		return http.MethodPut, at(given[0]), body, err
	case what == "register" && n == 2:
		id := given[0]
		if id == "new" {
			id = uuid.NewString()
		}
		body, err = c.document(given[1])
		return http.MethodPut, at(id), body, err
	case what == "set" && n == 1:
		body, err = c.secret(given[0])
		return http.MethodPost, at(), body, err
	case what == "resend" && n == 2:
		return http.MethodPost, at(given[0], "outbox", given[1], what), json.RawMessage("{}"), nil
	}
	return "", "", nil, r.misused(what)
}

// misused returns the error for wrong arguments of a word, or for an unknown word.
func (r resource) misused(what string) error {
	takes, known := taken[what], slices.Contains(r.does, what)
	if slices.Contains(r.actions, what) {
		takes, known = "ID [JSON]", true
	}
	if needs(r.name, what) {
		takes = "ID JSON"
	}
	if !known {
		wrong := &usageError{problem: fmt.Sprintf("%s has no word %q", r.name, clean(what))}
		if similar := mostSimilar(what, slices.Concat(r.does, r.actions)); similar != "" {
			wrong.problem += fmt.Sprintf("; did you mean %q?", similar)
			wrong.text = "`lanekeeper help " + r.name + "` tells more about it.\n"
		}
		return wrong
	}
	return misused("%s %s takes %s, such as: %s", r.name, what, takes, r.exampleOf(what))
}

// filters converts the filters of a listing to a query.
func (r resource) filters(what string, given []string, query url.Values) (string, error) {
	for _, a := range given {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return "", misused("%q is no filter: %s %s takes %s, such as: %s", clean(a), r.name, what, taken[what], r.exampleOf(what))
		}
		query.Set(name, value)
	}
	return query.Encode(), nil
}

// document returns JSON from the command line, or from standard input for "-".
func (c *console) document(text string) (json.RawMessage, error) {
	if text == "-" {
		var err error
		if text, err = c.input(); err != nil {
			return nil, err
		}
	}
	var v json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, misused("expected JSON, such as '{\"reason\": \"…\"}', or - for standard input: %v", err)
	}
	return json.RawMessage(text), nil
}

// input reads standard input to its end. It returns at most one byte more than a request may have, and the
// API refuses such a request.
func (c *console) input() (string, error) {
	const most = 1 << 20
	raw, err := io.ReadAll(io.LimitReader(c.in, most+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return string(raw), nil
}

// again returns the command for the next page of a listing, without the cursor.
func (c *console) again(name string, args []string, ws string) string {
	command := c.name + " " + name
	for _, a := range args {
		if !strings.HasPrefix(a, "cursor=") {
			command += " " + quoted(a)
		}
	}
	return command + inWorkspace(ws)
}

// inWorkspace returns the flag that names a workspace, by its id or its name, in a command to copy.
func inWorkspace(ws string) string {
	if ws == "" || ws == string(workspace.Default) {
		return ""
	}
	return " --workspace " + quoted(ws)
}

// quoted returns an argument as a shell takes it.
func quoted(argument string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=_-.,:/@%+"
	if strings.Trim(argument, plain) == "" {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}

// print prints an answer for a person: a listing as a table, which ends with the command again for the next page, and
// anything else as JSON.
func (r resource) print(p paper, what, again string, answer json.RawMessage, now time.Time) {
	w := p.w
	var page struct {
		Items      []map[string]any `json:"items"`
		NextCursor *string          `json:"nextCursor"`
	}
	decode := json.NewDecoder(bytes.NewReader(answer))
	decode.UseNumber() // as they are written
	switch {
	case len(answer) == 0:
		fmt.Fprintln(w, "Done.")
	case what != "list" || decode.Decode(&page) != nil:
		var indented strings.Builder
		enc := json.NewEncoder(&indented)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		_ = enc.Encode(answer) // it was decoded before
		fmt.Fprint(w, indented.String())
	case len(page.Items) == 0:
		are, what := "are", strings.ReplaceAll(r.name, "-", " ")
		switch r.name {
		case "activity", "usage":
			are = "is"
		case "audit":
			what = "audit entries"
		}
		fmt.Fprintf(w, "There %s no %s.\n", are, what)
	default:
		listing := table{columns: r.columns}
		for _, item := range page.Items {
			cells := make([]string, len(r.columns))
			for i, c := range r.columns {
				cells[i] = c.cell(item, now)
			}
			listing.rows = append(listing.rows, cells)
		}
		listing.print(p)
		if page.NextCursor != nil {
			fmt.Fprintf(w, "… and more: %s cursor=%s\n", again, *page.NextCursor)
		}
	}
}
