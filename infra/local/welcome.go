package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/agent"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm/demo"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// welcome holds the facts that start-up prints.
type welcome struct {
	cfg   app.Config
	url   string
	token string
	first trace.ID // of the first beat
	did   prepared
	// agents reports whether the default workspace has an agent that can do a task.
	agents bool
	log    *slog.Logger
}

// registerWorker are the arguments that register the built-in worker, which does any task.
const registerWorker = `agents register new '{"name": "worker", "spawner": "builtin"}'`

// hasAgent reports whether a workspace has an agent that is not terminated. It asks for one of each status, because
// any number of agents may have ended.
func hasAgent(ctx context.Context, agents *agent.Store, ws db.Workspace) (bool, error) {
	for _, is := range []agent.Status{agent.Idle, agent.Working, agent.Degraded, agent.Error, agent.Draining} {
		found, err := agents.List(ctx, ws, agent.Filter{Status: is, Limit: 1})
		if err != nil || len(found) > 0 {
			return len(found) > 0, err
		}
	}
	return false, nil
}

// modelOf describes the model.
func modelOf(cfg app.Config) string {
	if cfg.LLMProvider == demo.Name {
		return "DEMO: a script, no language model. It needs no network, and says so in all it writes."
	}
	return cfg.LLMModel + " of " + cfg.LLMProvider + ": each beat costs tokens. LLM_PROVIDER=demo costs none."
}

// welcome prints what runs where and how to look at it. It is the only place that prints the token.
// Programs read the token from its file.
func (c *console) welcome(w welcome) {
	if c.json {
		for _, problem := range w.cfg.Warnings() {
			w.log.Warn("a setting should not be left so", "variable", problem.Variable, "problem", problem.What, "do", problem.Do)
		}
		w.log.Info("lanekeeper runs", "url", w.url, "database", databaseOf(w.cfg), "model", modelOf(w.cfg),
			"heartbeat_every", w.cfg.HeartbeatEvery.String(), "first_trace_id", string(w.first))
		return
	}
	p := newPaper(c.out, c.environ)
	fact := func(name, format string, args ...any) {
		p.print(true, span{bold, fmt.Sprintf("  %-10s ", name)}, span{plain, fmt.Sprintf(format, args...)})
	}
	copied := func(command string) { p.print(true, span{cyan, "  " + command}) }
	p.print(true, span{bold, "Lanekeeper runs."})
	p.print(true)
	fact("API", "%s (its description: %s/docs)", w.url, w.url)
	kept := isFile(c.out) // the output stays in the file for all of its readers
	switch {
	case w.cfg.AdminToken != "": // the person who has set it knows it
	case kept:
		fact("sign in", "with the link that `%s token` prints on a terminal", c.name)
	default:
		fact("sign in", "%s", signInTo(w.did.shop, w.url, w.token))
	}
	if w.did.shop {
		where := "the sign-in link opens it"
		if kept || w.cfg.AdminToken != "" { // that link names no workspace
			where = "the page's menu at the lower left leads there"
		}
		fact("demo", "an ice cream shop that does not exist, in a workspace of its own: %s", where)
		fact("", "it is still empty: the shop opens after the first beat, and a line here says when it is ready")
		fact("", "`%s demo remove` removes it, whenever you like", c.name)
	}
	fact("chat", "%s/chat-demo (a page as visitors of a web site see it)", w.url)
	fact("database", "%s", databaseOf(w.cfg)+w.did.text())
	fact("model", "%s", modelOf(w.cfg))
	fact("heartbeat", "one beat now, then one every %s", every(w.cfg.HeartbeatEvery))
	for _, note := range w.cfg.Notes() {
		p.print(true, span{yellow, "  " + note})
	}
	for _, problem := range w.cfg.Warnings() {
		p.print(true, span{yellow, "  " + problem.String()})
	}
	p.print(true)
	p.print(true, span{plain, "In another terminal:"})
	p.print(true)
	token := w.token
	if w.cfg.AdminToken != "" {
		token = `"$ADMIN_TOKEN"` // the person who has set it knows it
	} else if kept {
		token = "$(" + c.name + " token)"
	}
	auth := `-H "Authorization: Bearer $LANEKEEPER_TOKEN" `
	copied("export LANEKEEPER_TOKEN=" + token)
	copied("curl -sw '\\n' " + auth + w.url + "/health")
	copied("curl -sw '\\n' " + auth + "'" + w.url + "/api/v1/activity?limit=5'")
	copied("curl -sw '\\n' " + auth + w.url + "/api/v1/traces/" + string(w.first))
	copied(c.name + " trace " + string(w.first))
	if !w.agents {
		copied(c.name + " " + registerWorker)
	}
	copied(c.name + " tasks create 'Compare three suppliers'")
	copied("curl -sw '\\n' " + auth + "-H 'Content-Type: application/json' -d '{\"wait\":true}' " + w.url + "/api/v1/heartbeat/run")
	p.print(true)
	p.print(true, span{plain, "They show whether all is well, what agents did last, the first beat from beginning"})
	if w.agents {
		p.print(true, span{plain, "to end (as data, and to read), give the agent a task, and run one more beat."})
	} else {
		p.print(true, span{plain, "to end (as data, and to read), register the built-in worker, which is the first agent"})
		p.print(true, span{plain, "here, give it a task, and run one more beat."})
	}
	p.print(true)
	p.print(true, span{plain, "Ctrl-C ends it. What a beat was at then goes on at the next start."})
	p.print(true)
}

// signInTo returns a sign-in link, which opens the workspace of the demo where there is one.
func signInTo(demo bool, origin, token string) string {
	link := signInLink(origin, token)
	if demo {
		link = strings.Replace(link, "#", "#workspace="+string(workspace.Demo)+"&", 1)
	}
	return link
}

// isFile reports whether a stream is a regular file, such as a log, and not a terminal or a pipe.
func isFile(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// every formats a duration without trailing zeros: "30m" for "30m0s".
func every(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// text describes what was done to the database.
func (did prepared) text() string {
	var done []string
	switch {
	case did.migrated && did.From == 0:
		done = append(done, "new")
	case did.migrated:
		done = append(done, fmt.Sprintf("brought from schema %d to %d", did.From, did.To))
	}
	if did.demo {
		done = append(done, "with demo objectives")
	}
	if len(done) == 0 {
		return ""
	}
	return " (" + strings.Join(done, ", ") + ")"
}

// databaseOf names the configured database, without its password.
func databaseOf(cfg app.Config) string {
	if cfg.OnPostgres() {
		return "Postgres"
	}
	if abs, err := filepath.Abs(cfg.SQLitePath); err == nil {
		return "SQLite " + abs
	}
	return "SQLite " + cfg.SQLitePath
}
