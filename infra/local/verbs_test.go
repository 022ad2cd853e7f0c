package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/infra/rig/servers"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// decode decodes a verb's JSON.
func decode[T any](t testing.TB, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}

func TestVerbsOnEveryDatabase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testVerbs(t, newHome(t)) })
	t.Run("postgres", func(t *testing.T) {
		testVerbs(t, newHome(t, "STATE_BACKEND=postgres", "DATABASE_URL="+dbtest.NewDatabase(t), "DEMO=1"))
	})
}

func testVerbs(t *testing.T, h home) {
	first := decode[struct {
		From, To int64
		Applied  []string
		Demo     bool
	}](t, h.must(exitDone, "migrate", "--json").out)
	if first.From != 0 || first.To != migrations.Latest() || len(first.Applied) == 0 || !first.Demo {
		t.Errorf("the first migration: %+v", first)
	}
	says(t, h.must(exitDone, "migrate").out, "nothing to do", fmt.Sprint("version ", migrations.Latest()))

	// Its first owner, once.
	says(t, h.must(exitUsage, "migrate", "--owner", "nobody").err, "--owner takes an e-mail address")
	says(t, h.must(exitDone, "migrate", "--owner", "You@Example.com").out, "You@Example.com is the owner of the default workspace")
	says(t, h.must(exitDone, "migrate", "--owner", "two@example.com").out, "has an owner already: nothing changed")
	if again := decode[struct{ Owner bool }](t, h.must(exitDone, "migrate", "--owner", "you@example.com", "--json").out); again.Owner {
		t.Error("an owner was made twice")
	}
	says(t, h.must(exitDone, "members").out, "you@example.com", "OWNER")
	says(t, h.must(exitDone, "workspaces").out, "default")

	// A beat: stderr has its work, stdout has its result.
	beat := h.must(exitDone, "trigger", "heartbeat")
	says(t, beat.err, "4 objectives active", "skill plan_objective", "completed")
	says(t, beat.out, "outcome  completed", "advance  4 of 4 done")
	report := decode[struct {
		Outcome, TraceID, ExecutionID string
		Phases                        []struct {
			Name string
			Done int
		}
	}](t, h.must(exitDone, "--json", "trigger", "heartbeat").out)
	if report.Outcome != "completed" || len(report.Phases) != 6 || report.Phases[3].Done < 3 {
		t.Errorf("the second beat: %+v", report)
	}

	// Its story.
	says(t, h.must(exitDone, "trace", report.TraceID).out, "trace "+report.TraceID+" completed",
		"advance: Keep a weekly digest of what the agent did", "  save_memory", "heartbeat.advance")
	says(t, h.must(exitDone, "trace", report.TraceID).out, "  model demo", " asks for ")
	says(t, h.must(exitDone, "trace", "--full", report.TraceID).out, "system    ", "user      ", "calls     ", "result    ")
	story := decode[told](t, h.must(exitDone, "trace", report.TraceID, "--json").out)
	if story.TraceID != report.TraceID || len(story.Executions) < 4 || len(story.Activities) < 8 {
		t.Errorf("the story: %+v", story)
	}
	says(t, h.must(exitFailed, "trace", "hb_000000000_0000000000").err, "nothing is known of trace hb_000000000_0000000000")

	// The demo content, by its own verbs.
	says(t, h.must(exitDone, "automations").out, "NAME", "Is the shop open?", "shop_status")
	says(t, h.must(exitDone, "memories", "list", "q=ice cream").out, "the shop sells ice cream")
	made := decode[struct{ ID string }](t, h.must(exitDone, "objectives", "create", `{"title":"Sell ice"}`, "--json").out)
	says(t, h.must(exitDone, "objectives", "pause", made.ID, `{"reason":"winter"}`).out, `"status": "paused"`)
	says(t, h.must(exitDone, "objectives", "list", "status=paused").out, "Sell ice")
	stop := decode[struct{ ID string }](t, h.must(exitDone, "kill-switches", "create", `{"scope":"agent","target":"nobody","reason":"test"}`, "--json").out)
	says(t, h.must(exitDone, "kill-switches").out, "nobody")
	h.must(exitDone, "kill-switches", "delete", stop.ID)
	says(t, h.must(exitDone, "heals").out, "shop_status", "its server") // it failed a third time in the first beat
	says(t, h.must(exitDone, "circuits").out, "There are no circuits.")
	says(t, h.must(exitFailed, "circuits", "delete", "openai:1a2b3c4d/org/small").err, `circuit "openai:1a2b3c4d/org/small" is not in workspace "default"`)
	says(t, h.must(exitUsage, "budgets", "create", "nonsense").err, "expected JSON")
	says(t, h.must(exitUsage, "objectives", "show", "nonsense").err, "path.id", "in objectives/nonsense")

	// Secrets are re-encrypted; there are none yet.
	says(t, h.must(exitDone, "secrets", "rotate").out, "Sealed anew under the current key: 0 secrets.")
	if did := decode[rotated](t, h.must(exitDone, "secrets", "rotate", "--json", "--keep-key").out); did.Resealed != 0 || did.NewKey != "" {
		t.Errorf("rotated %+v", did)
	}

	// A slot runs once.
	payload := filepath.Join(t.TempDir(), "event.json")
	write(t, payload, `{"source": "lanekeeper.schedule", "slot": "2026-01-05T10:30:00Z"}`)
	says(t, h.must(exitDone, "trigger", "heartbeat", "--payload", payload).out, "outcome  completed", "2026-01-05T10:30Z")
	says(t, h.must(exitDone, "trigger", "heartbeat", "--payload="+payload).out, "outcome  duplicate")
	if r := h.feed(`{"full": true}`, "trigger", "--payload", "-", "heartbeat"); r.code != exitDone {
		t.Errorf("an event on stdin: %+v", r)
	}

	for _, c := range events.For("heartbeat") {
		if r := h.feed(string(c.Payload), "trigger", "heartbeat", "--payload", "-"); r.code != exitDone {
			t.Errorf("event %s: %+v", c.Name, r)
		}
	}

	// Another process holds the lane.
	says(t, h.must(exitDone, "locks").out, "No lane is held.")
	hold(t, h, lane.Heartbeat, "somebody")
	says(t, h.must(exitDone, "locks").out, "heartbeat", "somebody", "ENDS IN")
	held := decode[struct {
		Items []struct{ Lane, Holder string }
	}](t, h.must(exitDone, "locks", "--json").out)
	if len(held.Items) != 1 || held.Items[0].Holder != "somebody" {
		t.Errorf("the lanes held: %+v", held)
	}
	says(t, h.must(exitDone, "trigger", "heartbeat").out, "outcome  skipped: the lane is taken", "somebody", "lanekeeper locks")

	// An operator releases the lane; a waiting beat then continues.
	released := make(chan result, 1)
	go func() { released <- h.do("trigger", "heartbeat", "--wait") }()
	awaitWaiter(t, h)
	says(t, h.must(exitUsage, "locks", "release", "heartbeat").err, "say why")
	says(t, h.must(exitDone, "locks", "release", "heartbeat", "--reason", "it hangs").out, "Lane heartbeat is free")
	if r := <-released; r.code != exitDone {
		t.Errorf("the beat that waited: %+v", r)
	}
	says(t, h.must(exitFailed, "locks", "release", "heartbeat", "--reason", "again").err, `nobody holds a lane "heartbeat"`, "`lanekeeper locks` lists")
	says(t, h.must(exitFailed, "locks", "release", "nolane", "--reason", "none", "--json").err, `nobody holds a lane`)

	// A turn with the agent. A beat by hand runs right after it.
	said := h.must(exitDone, "ask", "Please remember that the shop is red")
	says(t, said.out, "· save_memory started\n· save_memory succeeded\n[demo model] I saved it to memory: the shop is red\n", "Go on: lanekeeper ask --thread ")
	turn := decode[asked](t, h.must(exitDone, "ask", "--json", "And now?").out)
	if turn.Status != "completed" || turn.ThreadID == "" {
		t.Errorf("a turn: %+v", turn)
	}
	says(t, h.must(exitDone, "ask", "--thread", turn.ThreadID, "Once more").out, "[demo model]", turn.ThreadID)
	says(t, h.must(exitFailed, "ask", "--thread", "8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "Hello").err,
		"no conversation 8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "threads list channel=operate")
	says(t, h.must(exitUsage, "ask").err, "one message")

	// Nothing is sent over a channel.
	says(t, h.must(exitDone, "threads", "outbox", turn.ThreadID).out, `"items": []`)
	says(t, h.must(exitFailed, "threads", "resend", turn.ThreadID, turn.ThreadID).err, "channel is not wired here")
	says(t, h.must(exitUsage, "threads", "resend", turn.ThreadID).err, "resend ID MESSAGE")
	says(t, h.must(exitDone, "trigger", "heartbeat").out, "outcome  completed")

	// A waiting call is approved and made before the verb ends.
	h.must(exitDone, "skills", "edit", "save_memory", `{"requiresApproval":true}`)
	waits := decode[struct {
		Status      string
		ExecutionID string
		Approvals   []string
	}](t, h.must(exitDone, "ask", "--json", "Remember: the door is blue").out)
	if waits.Status != "waiting" || len(waits.Approvals) != 1 {
		t.Fatalf("the turn: %+v", waits)
	}
	h.must(exitDone, "approvals", "approve", waits.Approvals[0])
	says(t, h.must(exitDone, "memories", "list", "q=door").out, "the door is blue")
	says(t, h.must(exitDone, "executions", "show", waits.ExecutionID).out, `"status": "completed"`)

	checked := decode[struct {
		Healthy bool
		Checks  []finding
	}](t, h.must(exitDone, "doctor", "--json").out)
	if !checked.Healthy || len(checked.Checks) < 8 {
		t.Errorf("doctor: %+v", checked)
	}
}

// core opens a home's database.
func core(t testing.TB, h home) *db.DB {
	t.Helper()
	cfg, err := app.LoadConfig(h.environ)
	if err != nil {
		t.Fatal(err)
	}
	d, err := connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// hold acquires a lane for a minute, as another process would.
func hold(t testing.TB, h home, name lane.Name, holder lane.Holder) {
	t.Helper()
	lanes, err := lane.New(core(t, h))
	if err != nil {
		t.Fatal(err)
	}
	_, err = lanes.Acquire(t.Context(), lane.Request{Workspace: workspace.Default, Lane: name, Holder: holder, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitWaiter waits until another process waits for lane heartbeat.
func awaitWaiter(t testing.TB, h home) {
	t.Helper()
	lanes, err := lane.New(core(t, h))
	if err != nil {
		t.Fatal(err)
	}
	for {
		info, err := lanes.Peek(t.Context(), workspace.Default, lane.Heartbeat)
		if err != nil {
			t.Fatal(err)
		}
		if info.WantedBy != "" {
			return
		}
	}
}

func TestExitCodes(t *testing.T) {
	outdated := newHome(t)
	d, err := sqlite.Open(t.Context(), sqlite.Config{Path: outdated.file()})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	empty, ready := newHome(t), newHome(t)
	ready.must(exitDone, "migrate")
	payload := filepath.Join(t.TempDir(), "event.json")
	write(t, payload, `{"source": "a stranger"}`)
	nowhere := newHome(t, "DATABASE_URL=postgres://me:a-secret@127.0.0.1:1/none")

	for _, c := range []struct {
		line string
		home home
		code int
		says string // on stderr, or on stdout if the code is 0
	}{
		{"help", ready, exitDone, "exit codes"},
		{"--help", ready, exitDone, "exit codes"},
		{"help --json", ready, exitDone, `"usage": "lanekeeper trace ID [--full]"`},
		{"help trace", ready, exitDone, "usage: lanekeeper trace ID"},
		{"help trace --json", ready, exitDone, `"usage": "lanekeeper trace ID [--full]"`},
		{"help trace --json", ready, exitDone, `"flag": "--workspace ID"`},
		{"--json trace -h", ready, exitDone, `"about": "tell the story of one trace"`},
		{"help token", ready, exitDone, "\n  --url URL "},
		{"trace -h", ready, exitDone, "--workspace ID"},
		{"version", ready, exitDone, "database schema"},
		{"--version", ready, exitDone, "database schema"},
		{"config", ready, exitDone, "HEARTBEAT_EVERY"},
		{"", ready, exitUsage, "usage: lanekeeper VERB"},
		{"tigger", ready, exitUsage, `there is no verb "tigger"; did you mean "trigger"?`},
		{"lock", ready, exitUsage, `did you mean "locks"?`},
		{"conf", ready, exitUsage, `did you mean "config"?`},
		{"xyzzy", ready, exitUsage, "lanekeeper: there is no verb \"xyzzy\"\n\n`lanekeeper help` lists the verbs.\n"},
		{"objectives limit=2", ready, exitDone, "… and more: lanekeeper objectives list limit=2 cursor="},
		{"objectives list limit=2", ready, exitDone, "… and more: lanekeeper objectives list limit=2 cursor="},
		{"objectives status=completed", ready, exitDone, "There are no objectives."},
		{"activity", newHomeWith(t, "DEMO=0"), exitDone, "There is no activity."},
		{"kill-switches", ready, exitDone, "There are no kill switches."},
		{"audit", ready, exitDone, "There are no audit entries."},
		{"objectives show 01a203f9-9c2d-7078-8578-3917691c92fa", ready, exitFailed, `objective "01a203f9-9c2d-7078-8578-3917691c92fa" is not in workspace "default"`},
		{"objectives show 01a203f9-9c2d-7078-8578-3917691c92fa", ready, exitFailed, "\n\n`lanekeeper objectives` lists those that there are.\n"},
		{"tasks show nope", ready, exitUsage, "\n\n`lanekeeper tasks` lists those that there are.\n"},
		{"help coordinator", ready, exitDone, "[status | logs | recover | commands JSON]"},
		{`objectives create {"titel":"x"}`, ready, exitUsage, "titel"},
		{"objectives create {", ready, exitUsage, "for standard input: unexpected end of JSON input"},
		{"objectives what=2", ready, exitUsage, "what"},
		{"completion", ready, exitUsage, "bash or zsh"},
		{"help tigger", ready, exitUsage, `did you mean "trigger"?`},
		{"locks --colour", ready, exitUsage, "flag provided but not defined: -colour"},
		{"locks release", ready, exitUsage, "usage: lanekeeper locks"},
		{"locks release a!b --reason x", ready, exitUsage, "a lane's name is"},
		{"locks --reason x", ready, exitUsage, "usage: lanekeeper locks"},
		{"trace", ready, exitUsage, "usage: lanekeeper trace"},
		{"trace hello", ready, exitUsage, "not a trace id"},
		{"trigger", ready, exitUsage, "heartbeat or coordinator"},
		{"trigger chat", ready, exitUsage, "heartbeat or coordinator"},
		{"trigger heartbeat --payload none.json", ready, exitUsage, "none.json"},
		{"trigger heartbeat --payload " + payload, ready, exitUsage, "read the payload"},
		{"dev now", ready, exitUsage, "dev takes no arguments; its settings come from the environment, such as ADDR="},
		{"dev --port 9000", ready, exitUsage, "-port; its settings come from the environment, such as ADDR="},
		{"tasks lst", ready, exitUsage, "tasks has no word \"lst\"; did you mean \"list\"?\n\n`lanekeeper help tasks` tells more"},
		{"tasks list stray", ready, exitUsage,
			`"stray" is no filter: tasks list takes [NAME=VALUE …], such as: lanekeeper tasks list status=PENDING`},
		{"help tasks", ready, exitDone, "\n  -f "},
		{"config", newHome(t, "DEMO=perhaps"), exitUsage, "DEMO"},
		{"migrate", newHome(t, "DEMO=perhaps", "ADDR=here"), exitUsage, "ADDR"},
		{"locks", empty, exitDatabase, "`lanekeeper dev` or `lanekeeper migrate` makes it"},
		{"locks", outdated, exitDatabase, "lanekeeper migrate"},
		{"locks", nowhere, exitDatabase, "DATABASE_URL"},
		{"migrate", nowhere, exitDatabase, "DATABASE_URL"},
		{"trigger heartbeat", nowhere, exitDatabase, "DATABASE_URL"},
		{"doctor", nowhere, exitFailed, ""},
		{"token", ready, exitFailed, "`lanekeeper dev` makes one"},
	} {
		t.Run(c.line, func(t *testing.T) {
			r := c.home.must(c.code, strings.Fields(c.line)...)
			text := r.err
			if c.code == exitDone {
				text = r.out
			}
			says(t, text, c.says)
			if strings.Contains(r.out+r.err, "a-secret") {
				t.Errorf("a password was printed:\n%s\n%s", r.out, r.err)
			}
		})
	}
	for args, want := range map[string]string{
		"help": "usage: bin/lanekeeper VERB", "help tasks": "\n  bin/lanekeeper tasks logs -f ID", "tigger": "`bin/lanekeeper help` lists",
		"tasks list stray": "such as: bin/lanekeeper tasks list",
	} {
		var out bytes.Buffer
		run(t.Context(), append([]string{"bin/lanekeeper"}, strings.Fields(args)...), ready.environ, strings.NewReader(""), &out, &out)
		says(t, out.String(), want)
	}
	if _, err := os.Stat(empty.file()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a verb that looks made a file: %v", err)
	}
}

// A variable of the shell that is not set leaves an empty argument. It names no resource.
func TestAnEmptyArgumentIsRefused(t *testing.T) {
	h := newHomeWith(t, "DEMO=0")
	for _, args := range [][]string{
		{"kill-switches", "release", ""}, {"objectives", "show", ""}, {"objectives", "delete", ""}, {"objectives", "create", ""},
	} {
		says(t, h.must(exitUsage, args...).err, "lanekeeper: "+args[0]+" "+args[1]+" was given an empty text\n", "usage: lanekeeper "+args[0])
	}
}

// An objective is created from its title alone, like a task.
func TestATitleIsEnoughForAnObjective(t *testing.T) {
	h := newHomeWith(t, "DEMO=0")
	says(t, h.must(exitDone, "objectives", "create", "Sell more ice").out, `"title": "Sell more ice"`)
	says(t, h.must(exitDone, "objectives").out, "Sell more ice")
}

// A long listing ends with the command for the rest of it: of the same workspace, by the same filters.
func TestAListingGoesOnAsItBegan(t *testing.T) {
	h := newHomeWith(t, "DEMO=0")
	h.must(exitDone, "workspaces", "create", `{"slug":"second","name":"Ada's shop","owner":"you@example.com"}`)
	for _, priority := range []string{"3", "8", "9", "8"} {
		h.must(exitDone, "tasks", "create", `{"title":"Task","priority":`+priority+`}`, "--workspace", "Ada's shop")
	}
	listed := h.must(exitDone, "tasks", "list", "priority>=8", "limit=1", "--workspace", "Ada's shop").out
	for range 2 {
		_, next, _ := strings.Cut(listed, "… and more: lanekeeper ")
		again, cursor, found := strings.Cut(strings.TrimSpace(next), "cursor=")
		if !found || again != "tasks list 'priority>=8' limit=1 --workspace 'Ada'\\''s shop' " {
			t.Fatalf("it goes on with %q:\n%s", again, listed)
		}
		listed = h.must(exitDone, "tasks", "list", "priority>=8", "limit=1", "--workspace", "Ada's shop", "cursor="+cursor).out
		says(t, listed, "PENDING")
	}
	if strings.Contains(listed, "and more") {
		t.Errorf("after three there are more:\n%s", listed)
	}
}

// A command that a verb prints works as it stands, also for another workspace than the default one.
func TestPrintedCommandsAreOfTheirWorkspace(t *testing.T) {
	h := newHomeWith(t, "DEMO=0")
	made := decode[struct{ ID string }](t, h.must(exitDone, "workspaces", "create",
		`{"slug":"shop","name":"The shop","owner":"you@example.com"}`, "--json").out)
	said := h.must(exitDone, "ask", "Hello", "--workspace", "shop").out
	says(t, said, "Go on: lanekeeper ask --workspace shop --thread ")
	_, id, _ := strings.Cut(said, "Its story: lanekeeper trace ")
	id = strings.TrimSpace(id)
	found := h.must(exitDone, "trace", id)
	says(t, found.out, "trace "+id)
	says(t, found.err, "in workspace The shop")
	says(t, h.must(exitDone, "trace", id, "--json").out, `"traceId": "`+id+`"`)
	says(t, h.must(exitFailed, "trace", id, "--workspace", "default").err, "nothing is known of trace "+id+" in workspace default")
	says(t, h.must(exitFailed, "trace", "hb_0mwpsn9ll_vbajku4yo5").err, "nothing is known of trace hb_0mwpsn9ll_vbajku4yo5 in any workspace")

	says(t, h.feed(`{"token":"`+made.ID+`","holder":"me","ttlSeconds":60}`,
		"lanes", "acquire", "operate", "-", "--workspace", "shop").out, "fence")
	h.must(exitDone, "lanes", "acquire", "operate", `{"holder":"me","ttlSeconds":60}`)
	report := h.must(exitDone, "trigger", "heartbeat").out
	says(t, report, "Until when at the latest: lanekeeper locks\n",
		"workspace The shop\noutcome  skipped", "Until when at the latest: lanekeeper locks --workspace 'The shop'\n")
	says(t, h.must(exitDone, "locks", "--workspace", "The shop").out, "operate")
}

// `skills run` works in its own process. A skill that calls a host of this machine needs
// ALLOW_PRIVATE_HOSTS there too, and the refusal says so.
func TestASkillThatCannotBeUsedHereSaysWhy(t *testing.T) {
	h := newHomeWith(t, "DEMO=0", "ALLOW_PRIVATE_HOSTS=127.0.0.1:9")
	h.must(exitDone, "skills", "create", `{"name": "am_i_well", "kind": "http", "description": "Looks.", "parameters": {"type": "object", "properties": {}},
		"config": {"url": "http://127.0.0.1:9/health", "method": "GET"}}`)
	elsewhere := home{t, slices.DeleteFunc(slices.Clone(h.environ), func(v string) bool { return strings.HasPrefix(v, "ALLOW_PRIVATE_HOSTS=") })}
	refused := elsewhere.must(exitFailed, "skills", "run", "am_i_well").err
	says(t, refused, "the skill can't be used here", "config.url", "ALLOW_PRIVATE_HOSTS")
}

// What was tried by hand and failed has exit code 1, after its answer.
func TestATryThatFailsHasItsExitCode(t *testing.T) {
	h := newHomeWith(t, "DEMO=0", "ALLOW_PRIVATE_HOSTS=127.0.0.1:9") // where nobody listens
	h.must(exitDone, "skills", "create", `{"name": "am_i_well", "kind": "http", "description": "Looks.",
		"parameters": {"type": "object", "properties": {}},
		"config": {"url": "http://127.0.0.1:9/health", "method": "GET"}}`)
	made := decode[struct{ ID string }](t, h.must(exitDone, "automations", "create",
		`{"name": "look", "skill": "am_i_well", "schedule": {"cron": "0 9 * * *"}}`, "--json").out)
	told := decode[struct{ ID string }](t, h.must(exitDone, "webhook-endpoints", "create",
		`{"url": "http://127.0.0.1:9/", "events": ["*"]}`, "--json").out)
	for _, call := range [][]string{
		{"skills", "run", "am_i_well"}, {"automations", "run", made.ID}, {"webhook-endpoints", "test", told.ID},
	} {
		r := h.must(exitFailed, call...)
		if says(t, r.out, `"status": "failed"`, `"error": "`); r.err != "" {
			t.Errorf("%q: %s", call, r.err)
		}
	}
	h.must(exitDone, "skills", "run", "save_memory", `{"input": {"category": "fact", "content": "it rains"}}`)
}

// newHomeWith returns a home whose database exists.
func newHomeWith(t testing.TB, environ ...string) home {
	h := newHome(t, environ...)
	h.must(exitDone, "migrate")
	return h
}

// Each example in a verb's help is a valid call. Those that do not need an existing id also
// succeed.
func TestExamples(t *testing.T) {
	h := newHome(t, "DEMO=1")
	h.must(exitDone, "migrate")
	h.feed("s3cret", "secrets", "set", "github")
	for _, r := range resources() {
		if len(examples[r.name]) == 0 {
			t.Errorf("%s has no example", r.name)
		}
		help := h.must(exitDone, "help", r.name).out
		for _, example := range examples[r.name] {
			says(t, help, "  lanekeeper "+r.name+" "+example+"\n")
			call, _, file := strings.Cut(example, " <")
			words, last, quoted := strings.Cut(call, " '")
			args := strings.Fields(strings.ReplaceAll(words, " -f", ""))
			if quoted {
				args = append(args, strings.TrimSuffix(last, "'"))
			}
			switch {
			case args[0] == "follow" || args[0] == "rotate":
			case strings.Contains(call, "ID") || file || r.name == "circuits":
				if _, _, _, err := r.request(&console{in: strings.NewReader("")}, args); err != nil {
					t.Errorf("%s %s: %v", r.name, example, err)
				}
			default:
				h.must(exitDone, append([]string{r.name}, args...)...)
			}
		}
	}
	for args, want := range map[string]string{
		"secrets set":            "secrets set takes NAME <FILE, such as: lanekeeper secrets set github <token.txt",
		"objectives show":        "objectives show takes ID, such as: lanekeeper objectives show ID",
		"approvals reject":       "approvals reject takes ID JSON, such as: lanekeeper approvals reject ID 'too early'",
		"approvals reject x":     "approvals reject takes ID JSON",
		"approvals reconsider x": `approvals has no word "reconsider"`,
	} {
		says(t, h.must(exitUsage, strings.Fields(args)...).err, want)
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestAnAnswerThatCannotBeWrittenIsAFailure, in JSON and for people.
func TestAnAnswerThatCannotBeWrittenIsAFailure(t *testing.T) {
	h := newHomeWith(t)
	task := decode[struct{ ID string }](t, h.must(exitDone, "tasks", "create", "Count the stock", "--json").out).ID
	for _, args := range []string{"version", "version --json", "objectives", "help objectives", "completion bash", "tasks why " + task} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"lanekeeper"}, strings.Fields(args)...), h.environ, strings.NewReader(""), fullDisk{}, &errs)
		if code != exitFailed || !strings.Contains(errs.String(), "write the answer: no space left on device") {
			t.Errorf("%s: exit code %d, %q", args, code, errs.String())
		}
	}
}

// TestAnEmptyPageNamesACommandThatHelps: the command that a page of the Engine Room names where it has nothing
// to show succeeds, and is no listing of nothing.
func TestAnEmptyPageNamesACommandThatHelps(t *testing.T) {
	pages, err := filepath.Glob("../../shared/engineroom/web/src/panels/*/*.tsx")
	if err != nil {
		t.Fatal(err)
	}
	h := newHomeWith(t, "DEMO=1")
	named := regexp.MustCompile("<Empty [^>]*command=(\"[^\"]+\"|{'[^']+'}|{`[^`]+`})")
	count := 0
	for _, page := range pages {
		for _, found := range named.FindAllStringSubmatch(read(t, page), -1) {
			count++
			command := strings.TrimSuffix(strings.TrimPrefix(found[1], "{"), "}")
			command = command[1 : len(command)-1]
			call, ours := strings.CutPrefix(command, "bin/lanekeeper ")
			call, _, _ = strings.Cut(call, " < ") // the file holds a text
			words, last, _ := strings.Cut(strings.ReplaceAll(call, `"Check broken links"`, "'Check broken links'"), " '")
			args := strings.Fields(words)
			if last != "" {
				args = append(args, strings.TrimSuffix(last, "'"))
			}
			if !ours || slices.Contains(args, "list") {
				t.Errorf("%s names %q, which makes nothing", filepath.Base(filepath.Dir(page)), command)
				continue
			}
			if r := h.feed("a text", args...); r.code != exitDone {
				t.Errorf("%s: exit code %d: %s", command, r.code, r.err)
			}
		}
	}
	if count < 12 {
		t.Errorf("only %d commands were found", count)
	}
}

// A trace shows the name of an automation whose execution has no title.
func TestATraceNamesItsAutomations(t *testing.T) {
	h := newHome(t, "DEMO=1")
	h.must(exitDone, "migrate")
	all := decode[struct{ Items []struct{ ID, Name string } }](t, h.must(exitDone, "automations", "--json").out)
	d := core(t, h)
	c := app.NewCore(d, app.Config{}, slog.New(slog.DiscardHandler), nil)
	gone := "automation:01a203f9-9c2d-7078-8578-3917691c92fa"
	executions := []execution{{Subject: gone}, {Subject: gone}}
	for _, a := range all.Items {
		executions = append(executions, execution{Subject: "automation:" + a.ID}, execution{Subject: "automation:" + a.ID})
	}
	before := d.Stats()
	titles, err := titlesOf(t.Context(), c, workspace.Default, executions)
	if err != nil || len(titles) != len(all.Items) || len(all.Items) == 0 || titles[gone] != "" {
		t.Errorf("titles %v, %v", titles, err)
	}
	for _, a := range all.Items {
		if titles["automation:"+a.ID] != a.Name {
			t.Errorf("titles %v, want %q", titles, a.Name)
		}
	}
	if cost := d.Stats().Sub(before); cost.RoundTrips != 1 || cost.Statements != int64(len(all.Items))+1 {
		t.Errorf("for %d automations it costs %+v", len(all.Items), cost)
	}
}

func TestCompletion(t *testing.T) {
	script := newHome(t).must(exitDone, "completion", "bash").out
	for words, want := range map[string]string{"tri": "trigger", "objectives pau": "pause", "completion z": "zsh", "locks ": "release"} {
		ask := script + "\nCOMP_WORDS=(lanekeeper " + words + ")\nCOMP_CWORD=" + fmt.Sprint(strings.Count(words, " ")+1) + "\n_lanekeeper\necho \"${COMPREPLY[*]}\"\n"
		out, err := exec.CommandContext(t.Context(), "bash", "--norc", "-c", ask).CombinedOutput()
		if err != nil || string(out) != want+"\n" {
			t.Errorf("%q: %q, %v; want %s", words, out, err, want)
		}
	}
	zsh, err := servers.Zsh(t.Context())
	if err != nil && !dbtest.InCI() {
		t.Skipf("NOT RUN in zsh: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	script = newHome(t).must(exitDone, "completion", "zsh").out + "\nwhence -w _lanekeeper; echo ${_comps[lanekeeper]}\n"
	cmd := exec.CommandContext(t.Context(), zsh, "-f", "-c", script)
	cmd.Env = append(cmd.Environ(), "ZDOTDIR="+t.TempDir(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("zsh: %v\n%s", err, out)
	}
	says(t, string(out), "_lanekeeper: function", "_bash_complete")
}

// No verb treats a workspace that does not exist as an empty one.
func TestNoSuchWorkspace(t *testing.T) {
	h := newHome(t)
	h.must(exitDone, "migrate")
	lines := []string{"ask hello", "trace hb_000000000_0000000000", "locks", "locks release operate --reason x"}
	for _, r := range resources() {
		line := r.name + " " + r.does[0]
		switch r.does[0] {
		case "follow":
			line = r.name
		case "bulk":
			line += ` {"filter":{"status":"failed"},"action":"resend","expectedCount":0}`
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for _, ws := range []string{"nope", "", "00000000-0000-7000-8000-00000000000f"} {
			r := h.must(exitFailed, append(strings.Fields(line), "--workspace="+ws)...)
			says(t, r.err, fmt.Sprintf("there is no workspace %q", ws), "lanekeeper workspaces` lists")
			if r.out != "" {
				t.Errorf("%s --workspace=%s answers\n%s", line, ws, r.out)
			}
		}
	}
	for _, slug := range []string{"shop", "mall"} {
		h.must(exitDone, "workspaces", "create", `{"slug": "`+slug+`", "name": "Our `+slug+`", "owner": "you@example.com"}`)
	}
	h.must(exitDone, "projects", "create", `{"name": "The new shop"}`, "--workspace", "shop")
	for ws, want := range map[string]string{
		"shop": "The new shop", "our SHOP": "The new shop", "mall": "There are no projects.", "default": "There are no projects.",
	} {
		says(t, h.must(exitDone, "projects", "--workspace", ws).out, want)
	}
	h.must(exitDone, "workspaces", "create", `{"slug": "other", "name": "Our shop", "owner": "you@example.com"}`)
	says(t, h.must(exitFailed, "projects", "--workspace", "Our shop").err, `several workspaces are called "Our shop"`)
}

func TestErrorsForPrograms(t *testing.T) {
	r := newHome(t).must(exitDatabase, "locks", "--json")
	e := decode[struct {
		Error, Hint string
		ExitCode    int
	}](t, r.err)
	if e.ExitCode != exitDatabase || e.Error == "" || e.Hint == "" || r.out != "" {
		t.Errorf("%+v, stdout %q", e, r.out)
	}
}

func TestToken(t *testing.T) {
	h := newHome(t)
	d := h.dev()
	_, token, _ := d.started()
	d.end()
	if r := h.must(exitDone, "token"); r.out != token+"\n" || r.err != "" {
		t.Errorf("for a shell: %+v", r)
	}
	says(t, h.must(exitDone, "token", "--json").out, `"header": "Authorization: Bearer `+token+`"`)
	if info, err := os.Stat(tokenPath(h)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info.Mode(), err)
	}
}

// A person's sign-in link works once, at the server that has the same admin token.
func TestTheLinkOfAPerson(t *testing.T) {
	h := newHome(t)
	d := h.dev()
	url, admin, _ := d.started()
	says(t, d.out.String(), url+"/sign-in#token="+admin)
	h.environ = append(h.environ, "ADDR="+strings.TrimPrefix(url, "http://"))
	says(t, h.must(exitFailed, "token", "--user", "you@example.com").err, "nobody has the e-mail address", "migrate --owner")
	says(t, h.must(exitUsage, "token", "--user", "you").err, "no e-mail address")
	says(t, h.must(exitUsage, "token", "--url", "example.com").err, "--url takes a URL")
	h.must(exitDone, "migrate", "--owner", "you@example.com")
	link := strings.TrimSpace(h.must(exitDone, "token", "--user", "you@example.com").out)
	token, ours := strings.CutPrefix(link, url+"/sign-in#token=")
	if !ours || strings.Contains(token, admin) {
		t.Fatalf("the link is %s", link)
	}
	if status, body := call(t, "GET", url+"/sign-in", "", ""); status != 200 || !strings.Contains(body, "sign-in/sign-in.js") {
		t.Errorf("the page: %d %s", status, body)
	}
	for i, want := range []int{200, 401} {
		if status, body := call(t, "POST", url+"/api/v1/session", "", `{"token":"`+token+`"}`); status != want || want == 200 && !strings.Contains(body, "you@example.com") {
			t.Errorf("%d: %d %s", i+1, status, body)
		}
	}
	says(t, h.must(exitDone, "token", "--user", "you@example.com", "--url", "https://agents.example.com/", "--json").out, `"link": "https://agents.example.com/sign-in#token=`)
	says(t, h.must(exitDone, "workspaces", "create", `{"slug":"second","name":"Second","owner":"you@example.com"}`).out, `"slug": "second"`)
	if strings.Contains(d.out.String()+d.errs.String(), token) {
		t.Error("the token stands in the log")
	}
}

func TestDemoContent(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		want    bool
	}{
		"a new file":       {nil, true},
		"wanted":           {[]string{"DEMO=1"}, true},
		"not wanted":       {[]string{"DEMO=0"}, false},
		"as a word":        {[]string{"DEMO=false"}, false},
		"an empty setting": {[]string{"DEMO="}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, c.environ...)
			did := decode[struct{ Demo bool }](t, h.must(exitDone, "migrate", "--json").out)
			if did.Demo != c.want {
				t.Errorf("demo content: %v, want %v", did.Demo, c.want)
			}
			again := decode[struct{ Demo bool }](t, h.must(exitDone, "migrate", "--json").out)
			if explicit := len(c.environ) > 0 && c.environ[0] == "DEMO=1"; again.Demo != explicit {
				t.Errorf("demo content once more: %v", again.Demo)
			}
		})
	}
}

func TestDoctor(t *testing.T) {
	t.Run("nothing there", func(t *testing.T) {
		h := newHome(t)
		says(t, h.must(exitDone, "doctor").out, "there is no file "+h.file()+" yet")
		if _, err := os.Stat(filepath.Dir(h.file())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("doctor made something: %v", err)
		}
	})
	t.Run("all well", func(t *testing.T) {
		h := newHome(t, "REDIS_URL="+dbtest.Servers(t).RedisURL)
		h.dev().started()
		out := h.must(exitDone, "doctor").out
		says(t, out, "SQLite finds no damage", "one was taken and given back", "valkey        answers", "the demo model answers", "for its owner alone")
		if strings.Contains(out, "warn") {
			t.Errorf("warnings:\n%s", out)
		}
	})
	t.Run("the address", func(t *testing.T) {
		h := newHome(t)
		url, _, _ := h.dev().started()
		h.environ = append(h.environ, "ADDR="+strings.TrimPrefix(url, "http://"))
		says(t, h.must(exitDone, "doctor").out, "a Lanekeeper answers at "+url+", over this database: healthy")

		other := newHome(t, "ADDR="+strings.TrimPrefix(url, "http://"))
		other.must(exitDone, "migrate")
		for _, token := range []string{"", "ADMIN_TOKEN=a-token-of-the-users-own"} { // none, and another
			if token != "" {
				other.environ = append(other.environ, token)
			}
			says(t, other.must(exitDone, "doctor").out, "warn address", "a Lanekeeper answers at "+url+", but not over this database")
		}
		shown, err := os.ReadFile(tokenPath(h)) // the same token does not make it the same database
		if err != nil {
			t.Fatal(err)
		}
		other.environ = append(other.environ, "ADMIN_TOKEN="+strings.TrimSpace(string(shown)))
		says(t, other.must(exitDone, "doctor").out, "but not over this database")

		stranger := httptest.NewServer(http.NotFoundHandler())
		defer stranger.Close()
		h.environ = append(h.environ, "ADDR="+strings.TrimPrefix(stranger.URL, "http://"))
		says(t, h.must(exitDone, "doctor").out, "warn address")
	})
	t.Run("signing in", func(t *testing.T) {
		h := newHome(t, "JWT_SECRET="+strings.Repeat("x", 32))
		says(t, h.must(exitDone, "doctor").out, "warn sign-in", "JWT_AUDIENCE is missing")
	})
	t.Run("no file", func(t *testing.T) {
		folder := t.TempDir()
		says(t, newHome(t, "SQLITE_PATH="+folder).must(exitFailed, "doctor").out, "fail files", folder+" is a folder", "point SQLITE_PATH to another file")
	})
	t.Run("much amiss", func(t *testing.T) {
		h := newHome(t, "REDIS_URL=redis://:a-secret@127.0.0.1:1")
		h.must(exitDone, "migrate")
		write(t, tokenPath(h), "short")
		for _, path := range []string{h.file(), tokenPath(h)} {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out := h.must(exitFailed, "doctor").out
		says(t, out, "chmod 600 "+h.file(), "chmod 600 "+tokenPath(h), "REDIS_URL names")
		if strings.Contains(out, "a-secret") {
			t.Errorf("a password was printed:\n%s", out)
		}
	})
	t.Run("damage", func(t *testing.T) {
		h := newHome(t)
		content := damage(t, h)
		says(t, h.must(exitFailed, "doctor").out, "fail integrity", "moves it aside, with its log; then restore a backup")
		if now, err := os.ReadFile(h.file()); err != nil || string(now) != content {
			t.Errorf("doctor changed or moved the damaged file: %v", err)
		}
	})
	t.Run("outdated", func(t *testing.T) {
		h := newHome(t)
		d, err := sqlite.Open(t.Context(), sqlite.Config{Path: h.file()})
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		says(t, h.must(exitFailed, "doctor").out, "fail database", "→ lanekeeper migrate")
	})
	t.Run("configuration", func(t *testing.T) {
		says(t, newHome(t, "LOG_LEVEL=loud", "DEMO=perhaps").must(exitFailed, "doctor").out, "LOG_LEVEL", "DEMO")
	})
}

// TestAskSaysWhatItWaitsFor checks that a message behind another turn prints at once who has the
// lane. A message that must not wait is refused with the same text.
func TestAskSaysWhatItWaitsFor(t *testing.T) {
	h := newHome(t)
	h.must(exitDone, "migrate")
	hold(t, h, lane.Operate, "operate/another/op_x")
	refused := h.must(exitFailed, "ask", "--multitask", "reject", "Hello")
	says(t, refused.err, "the lane is held by operate/another/op_x, until ")
	ctx, stop := context.WithCancel(t.Context())
	out := newWatched()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"lanekeeper", "ask", "Hello"}, h.environ, strings.NewReader(""), out, io.Discard)
		out.end()
	}()
	says(t, out.wait(t, "Your message waits for its turn: "), "lane operate is held by operate/another/op_x", "it ends in")
	h.must(exitDone, "locks", "release", "operate", "--reason", "test")
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d\n%s", code, out)
	}
	stop()
}
