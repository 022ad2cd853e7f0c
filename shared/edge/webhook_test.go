package edge_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/events"
	"github.com/lanekeeper/lanekeeper/infra/rig"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// ask sends an HTTP API event to the built operate.
func ask(t *testing.T, f *rig.Function, method, path, body string) response {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal(event(t, "operate", "03_http_api"), &e); err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut("/live/api/v1/"+path, "?")
	e["rawPath"], e["rawQueryString"], e["body"], e["isBase64Encoded"] = path, query, body, false
	at := e["requestContext"].(map[string]any)["http"].(map[string]any)
	at["method"], at["path"] = method, path
	delete(e["headers"].(map[string]any), "content-length")
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return whole(t, invoke(t, f, payload))
}

// whole returns a response that is not streamed.
func whole(t *testing.T, r *rig.Result) (out response) {
	t.Helper()
	if err := json.Unmarshal(r.Payload, &out); err != nil || r.FunctionError != nil {
		t.Fatalf("%v: %s\n%s", r.FunctionError, r.Payload, r.Logs)
	}
	return out
}

// TestWebhooks: the built functions accept each shipped event. An accepted delivery is stored,
// operate is kicked, and tending runs what the rules ask for exactly once.
func TestWebhooks(t *testing.T) {
	c := newCloud(t)
	env := map[string]string{
		"DATABASE_URL": dbtest.AsLogin(c.owner), "ADMIN_TOKEN": "open-sesame-open-sesame", "SECRET_KEY_FILE": filepath.Join(t.TempDir(), "key"),
		"TEND_FUNCTION": "keeper-operate",
	}
	if r := invoke(t, c.start(t, "migrate", map[string]string{"DATABASE_URL": c.owner}), []byte(`{}`)); r.FunctionError != nil {
		t.Fatalf("%v\n%s", r.FunctionError, r.Logs)
	}
	operate, hook := c.start(t, "operate", env), c.start(t, "webhook", env)
	const secret = `"secret": "open-sesame-open-sesame"`
	for _, body := range []string{
		`{"name": "github", "kind": "github", ` + secret + `, "rules": [{"event": "issues.opened", "then": {"skill": "save_memory", "with": {"category": "issues", "content": "Issue: {{body.issue.title}}"}}}]}`,
		`{"name": "shop", "kind": "token", ` + secret + `, "rules": [{"event": "com.example.*", "then": {"skill": "save_memory", "with": {"category": "orders", "content": "Paid: {{body.data.amount}}"}}}]}`,
	} {
		if got := ask(t, operate, http.MethodPost, "webhook-sources", body); got.StatusCode != http.StatusCreated {
			t.Fatalf("%+v", got)
		}
	}
	want := map[string]int{"01_github": 202, "02_token": 202, "03_cloudevent": 202, "04_wrong_signature": 401}
	for _, e := range events.For("webhook") {
		if got := whole(t, invoke(t, hook, e.Payload)); got.StatusCode != want[e.Name] {
			t.Errorf("%s: %+v", e.Name, got)
		}
	}
	if again := whole(t, invoke(t, hook, event(t, "webhook", "01_github"))); again.StatusCode != http.StatusOK || !strings.Contains(again.Body, "duplicate") {
		t.Errorf("again: %+v", again)
	}
	kick, err := c.WaitInvoke(t.Context(), "keeper-operate")
	if err != nil {
		t.Fatal(err)
	}
	if r := invoke(t, operate, kick.Payload); r.FunctionError != nil {
		t.Fatalf("tended: %v\n%s", r.FunctionError, r.Logs)
	}
	if r := invoke(t, operate, event(t, "operate", "06_tend")); r.FunctionError != nil {
		t.Fatalf("tended again: %v\n%s", r.FunctionError, r.Logs)
	}
	deliveries := ask(t, operate, http.MethodGet, "deliveries", "")
	if n := strings.Count(deliveries.Body, `"status":"done"`); n != 3 {
		t.Errorf("%d of 3 are done: %s", n, deliveries.Body)
	}
	memories := ask(t, operate, http.MethodGet, "memories", "")
	for _, text := range []string{"Issue: It burns", "Paid: 12"} {
		if strings.Count(memories.Body, text) != 1 {
			t.Errorf("%q is not remembered once: %s", text, memories.Body)
		}
	}
	if got := ask(t, operate, http.MethodGet, "webhook-sources/github", ""); !strings.Contains(got.Body, `"rejected":1`) {
		t.Errorf("the wrong signature is not counted: %s", got.Body)
	}
}
