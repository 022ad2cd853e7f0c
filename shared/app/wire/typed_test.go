package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/web"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Texts from people and agents reach the model, the database and responses without the secrets of
// the configuration and of the workspace, in whatever form these appear.
func TestSecretsThatPeopleTypeAreNotKept(t *testing.T) {
	e := dbtest.New(t, dbtest.OnSQLite)
	var logs, asked told
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		_, _ = asked.Write(body)
		if strings.Contains(string(body), "Tell me") {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{"The secret is canary-of-", "the-work", "space, ", "and canary-of-the-beach."} {
				fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", piece)
			}
			fmt.Fprint(w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"1","model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Done."}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer model.Close()
	at, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := app.LoadConfig([]string{
		"LLM_PROVIDER=openai", "LLM_MODEL=m", "OPENAI_BASE_URL=" + model.URL, "ALLOW_PRIVATE_HOSTS=" + at.Host,
		"SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key"), "ADMIN_TOKEN=canary-of-the-administrator", "JWT_SECRET=canary-which-signs-the-tokens-of-all",
		"JWT_AUDIENCE=keeper", "ANTHROPIC_API_KEY=canary-of-a-model-provider", "OPENAI_API_KEY=canary-of-another-provider",
		"REDIS_URL=redis://u:canary-of-the-live-view@redis.example:6379",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DatabaseURL = "postgres://u:canary-of-the-database@db.example/lk"
	core := app.NewCore(e.DB, cfg, app.NewLogger(&logs, cfg, nil), func(context.Context) (awssdk.Config, error) { return awssdk.Config{}, errors.New("no AWS here") })
	all, err := workspace.New(e.DB)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.EnsureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	var behind sync.WaitGroup
	h, err := web.NewOperate(core, "test", func(fn func(context.Context)) { behind.Go(func() { fn(context.Background()) }) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := typed{t, h}

	w.do(http.MethodPost, "/api/v1/secrets", `{"name":"theirs","value":"canary-of-the-workspace"}`, nil)
	canaries := []string{
		"canary-of-the-administrator", "canary-which-signs-the-tokens-of-all", "canary-of-a-model-provider", "canary-of-another-provider",
		"canary-of-the-live-view", "canary-of-the-database", "canary-of-the-workspace",
	}
	typedIn := strings.Join(canaries, " ")
	for i, form := range []string{"&#%d;", "&#x%x;", "%%%02X", `\u%04x`} {
		var b strings.Builder
		for _, r := range canaries[(i+6)%len(canaries)] {
			fmt.Fprintf(&b, form, r)
		}
		typedIn += " " + b.String()
	}
	body := func(keep map[string]any) string {
		raw, err := json.Marshal(keep)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var turn, run, thread struct{ ID, TraceID, ThreadID, ExecutionID, Answer string }
	w.do(http.MethodPost, "/api/v1/operate", body(map[string]any{"message": "Look at " + typedIn}), &turn)
	input := map[string]any{"note": typedIn, "password": "canary-under-a-name", "deep": map[string]any{"apiToken": []string{"canary-under-a-name"}}}
	w.do(http.MethodPost, "/api/v1/executions", body(map[string]any{"agent": "ada", "input": input}), &run)
	w.do(http.MethodPost, "/api/v1/threads", `{"channel":"log","address":"ada"}`, &thread)
	w.do(http.MethodPost, "/api/v1/threads/"+thread.ID+"/messages", body(map[string]any{"body": "I say " + typedIn}), nil)
	w.do(http.MethodPost, "/api/v1/threads/"+thread.ID+"/send", body(map[string]any{"executionId": run.ID, "body": "I hear " + typedIn}), nil)
	w.do(http.MethodPost, "/api/v1/executions/"+run.ID+"/complete", body(map[string]any{"result": map[string]any{"told": typedIn}}), nil)
	var memory, objective struct{ ID string }
	w.do(http.MethodPost, "/api/v1/memories", body(map[string]any{"category": "fact", "content": "I know " + typedIn}), &memory)
	w.do(http.MethodPatch, "/api/v1/memories/"+memory.ID, body(map[string]any{"content": "I still know " + typedIn}), nil)
	w.do(http.MethodPost, "/api/v1/objectives", body(map[string]any{"title": "Use " + canaries[0], "description": typedIn}), &objective)
	w.do(http.MethodPatch, "/api/v1/objectives/"+objective.ID, body(map[string]any{"doneCriterion": typedIn}), nil)
	w.do(http.MethodPut, "/api/v1/objectives/"+objective.ID+"/steps",
		body(map[string]any{"steps": []map[string]any{{"title": "Take " + canaries[1], "inputs": map[string]any{"of": typedIn}}}}), nil)
	w.do(http.MethodPost, "/api/v1/objectives/"+objective.ID+"/pause", body(map[string]any{"reason": "because of " + canaries[2]}), nil)
	w.do(http.MethodPost, "/api/v1/lanes/report/force-release", body(map[string]any{"reason": "because of " + canaries[6]}), nil)
	for _, input := range []map[string]any{
		{"category": "fact", "content": "of " + canaries[6]}, {"category": "fact", "content": `{"password":"canary-under-a-name"}`},
	} {
		w.refused(http.MethodPost, "/api/v1/automations", body(map[string]any{
			"name": "each hour", "skill": "save_memory", "input": input, "schedule": map[string]any{"cron": "0 * * * *"}}), "holds a secret")
	}
	streamed := w.do(http.MethodPost, "/api/v1/operate", body(map[string]any{"message": "Tell me", "stream": true}), nil)
	if !strings.Contains(streamed, "event: delta") || strings.Contains(streamed, "event: restart") {
		t.Errorf("streamed was %s", streamed)
	}
	behind.Wait()

	everywhere := map[string]string{"the log": logs.String(), "a prompt": asked.String(), "the database": stored(t, e)}
	for name, path := range map[string]string{
		"the activity": "/api/v1/activity", "the trace": "/api/v1/traces/" + turn.TraceID + "?include=steps", "the run": "/api/v1/executions/" + run.ID,
		"the conversation": "/api/v1/threads/" + turn.ThreadID + "/messages", "the thread": "/api/v1/threads/" + thread.ID + "/messages",
		"the outbox": "/api/v1/threads/" + thread.ID + "/outbox", "the memories": "/api/v1/memories", "the objective": "/api/v1/objectives/" + objective.ID,
	} {
		everywhere[name] = w.do(http.MethodGet, path, "", nil)
	}
	everywhere["the stream"] = streamed
	if turn.Answer != "Done." || !strings.Contains(everywhere["a prompt"], "Look at [redacted]") {
		t.Fatalf("the model was not asked: %q, %s", turn.Answer, everywhere["a prompt"])
	}
	for where, text := range everywhere {
		for _, form := range []string{text, html.UnescapeString(text), unescaped(text)} {
			for _, canary := range append(canaries, "canary-under-a-name") {
				if i := strings.Index(form, canary); i >= 0 {
					t.Errorf("%s holds a canary: …%s…", where, form[max(0, i-100):i+len(canary)])
				}
			}
		}
	}
}

// unescaped removes the escapes of URLs and of JSON.
func unescaped(text string) string {
	return escape.ReplaceAllStringFunc(text, func(s string) string {
		code, err := strconv.ParseUint(s[strings.LastIndexAny(s, "%u")+1:], 16, 32)
		if err != nil {
			return s
		}
		return string(rune(code))
	})
}

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}|\\+u[0-9A-Fa-f]{4}`)

func TestEscapesAreUndone(t *testing.T) {
	if got := unescaped("a % \n " + `\u0063an\\u0061ry %63`); got != "a % \n canary c" {
		t.Errorf("it is %q", got)
	}
}

// typed calls the API as the local admin.
type typed struct {
	t *testing.T
	http.Handler
}

// refused sends a request that must be refused because of a field, without repeating its value.
func (w typed) refused(method, path, body, field string) {
	w.t.Helper()
	r := httptest.NewRequest(method, "https://keeper.example"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer canary-of-the-administrator")
	got := answered(w, r)
	if got.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Body.String(), field) || strings.Contains(got.Body.String(), "canary") {
		w.t.Errorf("%s %s: %d %s", method, path, got.Code, got.Body)
	}
}

func (w typed) do(method, path, body string, into any) string {
	w.t.Helper()
	r := httptest.NewRequest(method, "https://keeper.example"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer canary-of-the-administrator")
	got := answered(w, r)
	if got.Code >= 300 {
		w.t.Fatalf("%s %s: %d %s", method, path, got.Code, got.Body)
	}
	if into != nil {
		if err := json.Unmarshal(got.Body.Bytes(), into); err != nil {
			w.t.Fatal(err)
		}
	}
	return got.Body.String()
}
