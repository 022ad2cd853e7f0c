package wire_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// told holds everything that was written anywhere.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// echoing answers every request with the secret that the request carries, in the ways in which
// servers leak secrets: unchanged, encoded, in an error, in a header's name, truncated.
func echoing(reached *told) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := r.Header.Get("X-Canary")
		_, _ = io.WriteString(reached, s+"\n")
		switch r.URL.Path {
		case "/plain":
			_ = json.NewEncoder(w).Encode(map[string]string{"you sent": s})
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "token="+s)
		case "/encoded":
			_ = json.NewEncoder(w).Encode([]string{
				base64.StdEncoding.EncodeToString([]byte("x:" + s)), hex.EncodeToString([]byte(s)), url.QueryEscape(s), fmt.Sprintf("%q", s),
			})
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no such key: "+s)
		case "/denied":
			http.Error(w, s, http.StatusForbidden)
		case "/redirect":
			http.Redirect(w, r, "http://example.invalid/"+url.PathEscape(s), http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, s)
			panic(http.ErrAbortHandler)
		}
	})
}

// TestTwentyCanariesAppearNowhere passes secrets through headers, responses, errors, panics,
// prompts and approvals. It then searches the logs, the requests to the model and the database for
// them, in plain and encoded forms.
func TestTwentyCanariesAppearNowhere(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	ctx := t.Context()
	var logs, reached told
	server := httptest.NewServer(echoing(&reached))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"ALLOW_PRIVATE_HOSTS=" + at.Host, "SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "LLM_PROVIDER=demo", "LOG_LEVEL=debug",
		"ANTHROPIC_API_KEY=canary-of-the-configuration", "ADMIN_TOKEN=canary-of-the-administrator",
	}
	cfg, err := app.LoadConfig(environ)
	if err != nil {
		t.Fatal(err)
	}
	core := app.NewCore(e.DB, cfg, app.NewLogger(&logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	a, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	canaries := []string{"canary-of-the-configuration", "canary-of-the-administrator"}
	for i := range 18 {
		canary := fmt.Sprintf("canary/%d+of \"%x\" ünï", i, time.Now().UnixNano()+int64(i))
		if i%2 == 0 {
			canary = fmt.Sprintf("canary%dof%x", i, time.Now().UnixNano()+int64(i))
		}
		canaries = append(canaries, canary)
		if _, err := a.Secrets.Put(ctx, e.Workspace, fmt.Sprint("canary-", i), secret.NewValue(canary), "test"); err != nil {
			t.Fatal(err)
		}
	}

	// through headers of skills whose server repeats them
	paths := []string{"plain", "text", "encoded", "error", "denied", "redirect", "cut"}
	for i, path := range paths {
		define(t, a, e, path, fmt.Sprintf(`{"url": %q, "headers": {"X-Canary": {"$secret": "canary-%d"}}}`, server.URL+"/"+path, 2*i), false)
		if _, err := a.Operate.RunSkill(trace.With(ctx, core.Traces.New(trace.Operate)), e.Workspace, path, []byte(`{}`), operate.ByHand{Person: true}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(reached.String(), "canary"); n != len(paths) {
		t.Fatalf("the server has seen %d canaries, want %d", n, len(paths))
	}

	// through an execution: its skills return the secrets, refuse, fail and panic with them, the
	// model repeats them, and a call with them waits for approval
	define(t, a, e, "waits", fmt.Sprintf(`{"url": %q, "headers": {"X-Canary": {"$secret": "canary-14"}}}`, server.URL+"/plain"), true)
	var prompts told
	c := canaryRun{t: t, a: a, core: core, e: e, prompts: &prompts}
	c.run()

	// through the log itself
	core.Log.InfoContext(ctx, "starting with "+canaries[0], "error", fmt.Errorf("bad token %s", canaries[1]), "config", cfg)

	everywhere := map[string]string{"the log": logs.String(), "a prompt": prompts.String(), "the database": stored(t, e)}
	if len(everywhere["the log"]) < 1000 || len(everywhere["a prompt"]) < 1000 || len(everywhere["the database"]) < 1000 {
		t.Fatal("there is nothing to be searched")
	}
	for where, text := range everywhere {
		for _, canary := range canaries {
			for how, form := range forms(canary) {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s holds a canary, %s: …%s…", where, how, text[max(0, i-100):min(len(text), i+len(form)+40)])
				}
			}
		}
	}
}

// forms returns the encodings in which a secret may appear.
func forms(s string) map[string]string {
	quoted, _ := json.Marshal(s)
	return map[string]string{
		"as it is": s, "in JSON": strings.Trim(string(quoted), `"`), "in base64": base64.StdEncoding.EncodeToString([]byte(s)),
		"in hex": hex.EncodeToString([]byte(s)), "in a URL": url.QueryEscape(s),
	}
}

// define registers a skill of kind http.
func define(t *testing.T, a *wire.Surfaces, e dbtest.Env, name, config string, approved bool) {
	t.Helper()
	err := e.DB.Tx(t.Context(), e.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, err := a.Registry.Create(ctx, tx, skill.Definition{
			Name: name, Kind: skill.HTTP, Description: "calls " + name, Parameters: json.RawMessage(`{"type": "object"}`),
			Config: json.RawMessage(config), Scope: skill.Both, RequiresApproval: approved, Enabled: true, CreatedBy: "test",
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// canaryRun is an execution whose skills know secrets and leak all of them.
type canaryRun struct {
	t       *testing.T
	a       *wire.Surfaces
	core    *app.Core
	e       dbtest.Env
	prompts *told
}

func (c canaryRun) run() {
	c.t.Helper()
	resolve := func(ctx context.Context, name string) string {
		v, err := c.a.Secrets.Resolve(ctx, c.e.Workspace, name)
		if err != nil {
			c.t.Error(err)
		}
		return v.Reveal()
	}
	leak := func(name string, fn func(s string) (any, error)) skill.Skill {
		return skill.Skill{Name: name, Parameters: json.RawMessage(`{"type": "object"}`), Do: func(ctx context.Context, _ skill.Call) (any, error) {
			return fn(resolve(ctx, "canary-"+name[len(name)-1:]))
		}}
	}
	skills := []skill.Skill{
		leak("returns_1", func(s string) (any, error) {
			return map[string]string{"it": s, "as": base64.StdEncoding.EncodeToString([]byte(s)), "in " + s: url.QueryEscape(s)}, nil
		}),
		leak("refuses_3", func(s string) (any, error) { return nil, skill.Refuse("not with %s", s) }),
		leak("fails_5", func(s string) (any, error) { return nil, fmt.Errorf("no: %q", s) }),
		leak("panics_7", func(s string) (any, error) { panic("with " + s) }),
		leak("loses_9", func(s string) (any, error) { return nil, &skill.UncertainError{Reason: "cut off after " + s} }),
	}
	registered, err := c.a.Skills(c.t.Context(), c.e.Workspace, trace.Heartbeat)
	if err != nil {
		c.t.Fatal(err)
	}
	waits, _ := registered.Find("waits")
	set, err := skill.NewSet(append(skills, *waits)...)
	if err != nil {
		c.t.Fatal(err)
	}
	model := llmtest.Script(c.t, llmtest.Call("returns_1", `{}`, "refuses_3", `{}`, "fails_5", `{}`, "panics_7", `{}`, "loses_9", `{}`, "waits", `{}`),
		func(req llm.Request) (llm.Response, error) {
			_ = json.NewEncoder(c.prompts).Encode(req)
			return llmtest.Say("done")(req)
		})
	id := c.core.IDs()
	e := execution.Execution{
		ID: id, Agent: activity.Operator, Surface: trace.Heartbeat, Trace: c.core.Traces.New(trace.Heartbeat), Subject: lane.Execution(id), Attempt: 1,
	}
	ctx := trace.With(c.t.Context(), e.Trace)
	runner := *c.a.Reason
	runner.Model, runner.Models = model, nil
	err = c.a.Lanes.Do(ctx, lane.Request{Workspace: c.e.Workspace, Lane: e.Subject, Holder: "test"}, lane.Wait{}, func(ctx context.Context, h *lane.Hold) error {
		if err := c.a.Lanes.InHold(ctx, h, func(_ context.Context, tx lane.Tx) error { return c.a.Runs.Start(tx, e) }); err != nil {
			return err
		}
		job := reason.Job{
			Execution: e, Hold: h, Agent: activity.Operator, System: strings.Repeat("You work. ", 100), Skills: set,
			Messages: []llm.Message{{Role: llm.RoleUser, Text: "Begin."}}, Stops: []reason.Stop{reason.MaxSteps(5)}, Retries: 2, SkillTimeout: 10 * time.Second,
		}
		out, err := runner.Run(ctx, job)
		if err != nil || out.Status != execution.Completed {
			return fmt.Errorf("it ended %s: %w", out.Status, err)
		}
		return c.a.Lanes.InHold(ctx, h, func(ctx context.Context, tx lane.Tx) error { return runner.Close(ctx, tx, job, out) })
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.approve()
}

// approve approves and makes the waiting call.
func (c canaryRun) approve() {
	c.t.Helper()
	var waiting []string
	items, _, err := c.a.Approvals.List(c.t.Context(), c.e.Workspace, approval.Filter{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, i := range items {
		waiting = append(waiting, i.ID)
	}
	if len(waiting) != 1 {
		c.t.Fatalf("waiting are %v", waiting)
	}
	if _, err := c.a.Approvals.Approve(c.t.Context(), c.e.Workspace, waiting[0], "test", nil); err != nil {
		c.t.Fatal(err)
	}
	sent, err := c.a.Sender.Drain(c.t.Context(), c.e.Workspace, 10)
	if err != nil || sent.Claimed != 2 { // the call, and the message to the execution that asked for it
		c.t.Fatalf("sent %+v, %v", sent, err)
	}
	done, err := c.a.Approvals.Get(c.t.Context(), c.e.Workspace, waiting[0])
	if err != nil || len(done.Result) == 0 {
		c.t.Fatalf("the approval is %+v, %v", done, err)
	}
}

// stored returns the content of the whole database.
func stored(t *testing.T, e dbtest.Env) string {
	t.Helper()
	var all strings.Builder
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(e.URL + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
