package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	executions "github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// elsewhere lists the routes that no resource's verb calls, with the reasons.
var elsewhere = map[string]string{
	"get-metrics":   "it is for Prometheus",
	"run-heartbeat": "lanekeeper trigger heartbeat, and with it where the beat runs",
	"operate":       "lanekeeper ask",
	"get-overview":  "lanekeeper overview",
	"get-health":    "lanekeeper doctor says more",

	"get-coordinator-health": "lanekeeper coordinator status says more",

	"get-me": "the operator is the user of this machine",

	"start-session":    "browsers have sessions; lanekeeper token --user prints the link to one",
	"choose-workspace": "of a session; here --workspace does it",
	"end-session":      "of a session",
	"speak-mcp":        "other programs' protocol, over these same routes",

	"get-openapi-json": "a file", "get-openapi-yaml": "a file", "get-docs": "a file", "get-docs-script": "a file", "get-docs-style": "a file",
	"get-sign-in": "a file", "get-sign-in-script": "a file",

	"list-models": "a visitor's", "get-model": "a visitor's", "complete-chat": "a visitor's", "create-response": "a visitor's", "get-response": "a visitor's",
	"begin-chat": "a visitor's", "send-chat": "a visitor's", "list-chat": "a visitor's", "follow-chat": "a visitor's", "receive-webhook": "a sender's",
}

// openAPI is the part of the OpenAPI document that the tests use.
type openAPI struct {
	Paths map[string]map[string]struct {
		OperationID string
		Responses   map[string]struct {
			Content map[string]struct{ Schema schema }
		}
	}
	Components struct{ Schemas map[string]schema }
}

type schema struct {
	Ref        string `json:"$ref"`
	Items      *schema
	Properties map[string]schema
}

// of resolves a reference.
func (d openAPI) of(s schema) schema {
	if s.Ref != "" {
		return d.Components.Schemas[path.Base(s.Ref)]
	}
	return s
}

func described(t *testing.T) (d openAPI) {
	t.Helper()
	h := newHome(t)
	h.must(exitDone, "migrate")
	c := &console{environ: h.environ, err: io.Discard}
	core, ask, err := c.operate(t.Context(), workspace.Default)
	if err != nil {
		t.Fatal(err)
	}
	defer core.DB.Close()
	if _, err := ask.ask(t.Context(), http.MethodGet, "/openapi.json", nil, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryRouteHasAVerbAndEveryVerbARoute(t *testing.T) {
	asked := map[string]bool{}
	for _, r := range resources() {
		for _, word := range slices.Concat(r.does, r.actions) {
			found := word == "rotate" // all keys; no route does that
			for _, args := range [][]string{{word}, {word, "X"}, {word, "X", "{}"}, {word, "{}"}, {word, "X", "X"}, {word, "X", "X", "X"}} {
				method, at, _, err := r.request(&console{in: strings.NewReader("x")}, args)
				if err == nil {
					at, _, _ = strings.Cut(strings.ReplaceAll(at, "/%7B%7D", "/X"), "?")
					asked[method+" "+at], found = true, true
				}
			}
			if !found {
				t.Errorf("lanekeeper %s %s asks for nothing", r.name, word)
			}
		}
	}
	operations := 0
	for at, methods := range described(t).Paths {
		parts := strings.Split(at, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, "{") {
				parts[i] = "X"
			}
		}
		for method, op := range methods {
			operations++
			route := strings.ToUpper(method) + " " + strings.Join(parts, "/")
			if _, other := elsewhere[op.OperationID]; asked[route] == other {
				t.Errorf("%s, %s: a verb asks for it: %v, and it is an exception: %v", op.OperationID, route, asked[route], other)
			}
			delete(asked, route)
		}
	}
	if operations < 100 {
		t.Errorf("only %d routes are described", operations)
	}
	for route := range asked {
		t.Errorf("a verb asks for %s, which is no route", route)
	}
}

func TestColumnsAreFieldsOfTheListing(t *testing.T) {
	d := described(t)
	for _, r := range resources() {
		if !slices.Contains(r.does, "list") {
			continue
		}
		page := d.of(d.Paths[r.path()]["get"].Responses["200"].Content["application/json"].Schema)
		items := page.Properties["items"].Items
		if items == nil || len(r.columns) == 0 {
			t.Errorf("%s: no items, or no columns", r.name)
			continue
		}
		for _, column := range r.columns {
			for field := range strings.SplitSeq(column.field, "|") {
				if _, there := d.of(*items).Properties[field]; !there {
					t.Errorf("%s has no %s", r.name, field)
				}
			}
		}
	}
}

// Inputs that are sealed for an agent are re-encrypted under the new key too, so the old key can be
// deleted.
func TestRotatingKeysSealsInputsAnew(t *testing.T) {
	h := newHome(t, "DEMO=0")
	h.must(exitDone, "migrate")
	const given = `{"password":"hunter2"}`
	made := decode[struct{ ID string }](t, h.must(exitDone, "executions", "create", `{"agent":"ada","input":`+given+`}`, "--json").out)
	h.must(exitDone, "tasks", "create", `{"title":"x","inputContext":`+given+`}`)
	file := secret.NewKeyFile(lookup(h.environ, "SECRET_KEY_FILE"))
	did := decode[rotated](t, h.must(exitDone, "secrets", "rotate", "--json").out)
	keys, err := file.Keys()
	if err != nil || len(keys) != 2 || did.Resealed != 2 || len(did.Failed) > 0 {
		t.Fatalf("keys %q, rotated %+v, %v", keys, did, err)
	}
	d := core(t, h)
	runs, err := executions.New(d)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := runs.SealedInput(t.Context(), workspace.Default, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := secret.KeyOf(sealed); err != nil || key != keys[1] {
		t.Errorf("it is sealed under %s, not %s: %v", key, keys[1], err)
	}
	store, err := secret.New(d, file)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := store.OpenAt(t.Context(), executions.InputPlace(workspace.Default, made.ID), sealed); err != nil || v.Reveal() != given {
		t.Errorf("it is another input now: %v", err)
	}
	if did := decode[rotated](t, h.must(exitDone, "secrets", "rotate", "--keep-key", "--json").out); did.Resealed != 0 {
		t.Errorf("rotated again: %+v", did)
	}
}

func TestTheOperatorsOtherVerbs(t *testing.T) {
	h := newHome(t, "DEMO=0")
	h.must(exitDone, "migrate")

	// Numbers are not rounded.
	h.must(exitDone, "budgets", "create", `{"scope":"global","allocated":1000000,"periodStart":"2026-01-01T00:00:00Z","periodEnd":"2099-01-01T00:00:00Z"}`)
	says(t, h.must(exitDone, "budgets").out, "1,000,000  1,000,000")

	// What has a name is shown by it, and the rest as it is called.
	shop := decode[struct{ ID string }](t, h.must(exitDone, "projects", "create", `{"name":"Shop of Ada"}`, "--json").out)
	for scope, id := range map[string]string{"project": shop.ID, "agent": "flowpilot:hb"} {
		h.must(exitDone, "budgets", "create", `{"scope":"`+scope+`","scopeId":"`+id+
			`","allocated":10,"periodStart":"2026-01-01T00:00:00Z","periodEnd":"2099-01-01T00:00:00Z"}`)
	}
	listed := h.must(exitDone, "budgets").out
	if says(t, listed, "Shop of Ada", "flowpilot:hb"); strings.Contains(listed, shop.ID) {
		t.Errorf("it shows the project's id:\n%s", listed)
	}
	h.must(exitDone, "skills", "run", "save_memory", `{"input":{"category":"fact","content":"it rains"}}`)
	says(t, h.must(exitDone, "activity").out, "save_memory")

	// Each workspace can be edited from any other.
	made := decode[struct{ ID string }](t, h.must(exitDone, "workspaces", "create", `{"slug":"second","name":"Second","owner":"you@example.com"}`, "--json").out)
	says(t, h.must(exitDone, "workspaces").out, "default", "second")
	says(t, h.must(exitDone, "workspaces", "edit", made.ID, `{"name":"Other"}`).out, `"Other"`)
	says(t, h.must(exitDone, "workspaces", "show", made.ID).out, `"second"`)
	h.must(exitDone, "workspaces", "delete", made.ID)
	if out := h.must(exitDone, "workspaces").out; strings.Contains(out, "second") {
		t.Errorf("deleted, it is still there:\n%s", out)
	}

	// A secret's value comes from standard input only, and is not printed.
	if r := h.feed("s3cret\n", "secrets", "set", "token"); r.code != exitDone || strings.Contains(r.out+r.err, "s3cret") {
		t.Errorf("set a secret: %+v", r)
	}
	says(t, h.must(exitUsage, "secrets", "set", "token", "s3cret").err, "set NAME <FILE")
	says(t, h.must(exitDone, "secrets").out, "token")
	says(t, h.must(exitDone, "secrets", "rotate").out, "Sealed anew under the current key: 1 secret.\n")
	h.must(exitDone, "secrets", "delete", "token")
	says(t, h.must(exitDone, "secrets").out, "There are no secrets.")

	// A lane, from a script.
	hold := decode[struct{ Token string }](t, h.must(exitDone, "lanes", "acquire", "x", `{"holder":"me"}`, "--json").out)
	says(t, h.must(exitDone, "lanes").out, "x     me")
	says(t, h.must(exitFailed, "lanes", "acquire", "x", `{"holder":"you"}`).err, "the lane is held")
	h.must(exitDone, "lanes", "release", "x", `{"token":"`+hold.Token+`"}`)
	says(t, h.must(exitDone, "lanes", "why", "x").out, `"lane": "x"`)

	// An objective's plan is written and read, also from standard input.
	o := decode[struct{ ID string }](t, h.must(exitDone, "objectives", "create", `{"title":"Sell ice"}`, "--json").out)
	if r := h.feed(`{"steps":[{"title":"Make it"}]}`, "objectives", "steps", o.ID, "-"); r.code != exitDone {
		t.Errorf("a plan: %+v", r)
	}
	says(t, h.must(exitDone, "objectives", "steps", o.ID).out, "Make it")
	says(t, h.must(exitDone, "memory-categories").out, "fact      1")
	says(t, h.must(exitDone, "usage").out, "There is no usage.")

	// Past and current events.
	ran := decode[struct{ ExecutionID string }](t, h.must(exitDone, "ask", "--json", "Hello").out)
	says(t, h.must(exitDone, "executions", "events", ran.ExecutionID).out, "done {")
	says(t, h.must(exitDone, "executions", "events", ran.ExecutionID, "--json").out, `"event":"done"`)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, code := newWatched(), make(chan int)
	go func() {
		code <- run(ctx, []string{"lanekeeper", "events", "follow", "cursor=0-0", "--json"}, h.environ, strings.NewReader(""), out, io.Discard)
		out.end()
	}()
	line := out.wait(t, `{"data":`)
	stop()
	if c := <-code; c != exitDone || !json.Valid([]byte(`{"data":`+line)) {
		t.Errorf("following ended with %d after %s", c, line)
	}
}

// A failure is dismissed by what its listing says of it.
func TestAFailureIsDismissed(t *testing.T) {
	h := newHomeWith(t, "DEMO=0")
	run := decode[struct{ ID string }](t, h.must(exitDone, "executions", "create", `{"agent":"baker"}`, "--json").out)
	h.must(exitDone, "executions", "fail", run.ID, `{"reason":"the oven is cold"}`)
	type listing struct {
		Items []struct{ Kind, ID, At string }
	}
	open := decode[listing](t, h.must(exitDone, "failures", "--json").out).Items
	if len(open) != 1 {
		t.Fatalf("the failures are %+v", open)
	}
	says(t, h.must(exitDone, "failures").out, open[0].Kind+" ", open[0].ID+" ", open[0].At+"\n")
	h.must(exitDone, "failures", "dismiss", open[0].Kind, open[0].ID, open[0].At)
	if left := decode[listing](t, h.must(exitDone, "failures", "--json").out).Items; len(left) > 0 {
		t.Errorf("dismissed, there are still %+v", left)
	}
}
