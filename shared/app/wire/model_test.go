package wire_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/observe/observetest"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// TestCallsOfTheDemoModelAreMeasured: the first run shows the metrics of models.
func TestCallsOfTheDemoModelAreMeasured(t *testing.T) {
	e := dbtest.Alone(t, dbtest.OnSQLite)
	cfg, err := app.LoadConfig([]string{"LLM_PROVIDER=demo", "SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key")})
	if err != nil {
		t.Fatal(err)
	}
	core := app.NewCore(e.DB, cfg, wiretest.Log(t), func(context.Context) (awssdk.Config, error) {
		return awssdk.Config{}, errors.New("there is no AWS in tests")
	})
	s, err := wire.New(core, "test")
	if err != nil {
		t.Fatal(err)
	}
	said, err := s.Reason.Models(e.Workspace).Generate(t.Context(), llm.Request{
		System: "You chat.", Messages: []llm.Message{{Role: llm.RoleUser, Text: "Hello"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := core.Meters.Write(&b, nil); err != nil {
		t.Fatal(err)
	}
	text, err := observetest.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		labels []string
		want   int
	}{
		"llm_latency_seconds_count": {[]string{"provider", "demo", "model", "demo"}, 1},
		"llm_tokens_total":          {[]string{"model", "demo", "kind", "output"}, said.Usage.CompletionTokens},
	} {
		if got, _ := text.Value(name, c.labels...); got != float64(c.want) {
			t.Errorf("%s is %v, not %d, in\n%s", name, got, c.want, b.String())
		}
	}
}

// TestWhatWaitsForAModelGoesOnWhenItAnswers: each turn that waits is tried later after each try, and would stand still
// for minutes after a short outage.
func TestWhatWaitsForAModelGoesOnWhenItAnswers(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, e dbtest.Env) {
		var well atomic.Bool
		model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"))
		}))
		t.Cleanup(model.Close)
		cfg, err := app.LoadConfig([]string{"LLM_PROVIDER=openai", "LLM_MODEL=m", "OPENAI_BASE_URL=" + model.URL, "OPENAI_API_KEY=k",
			"ALLOW_PRIVATE_HOSTS=127.0.0.1", "SECRET_KEY_FILE=" + filepath.Join(t.TempDir(), "key")})
		if err != nil {
			t.Fatal(err)
		}
		core := app.NewCore(e.DB, cfg, wiretest.Log(t), func(context.Context) (awssdk.Config, error) {
			return awssdk.Config{}, errors.New("there is no AWS in tests")
		})
		core.Clock = func() time.Time { return time.Now().Add(e.Skew.Offset()) }
		s, err := wire.New(core, "test")
		if err != nil {
			t.Fatal(err)
		}
		var b db.Batch
		s.Outbox.Enqueue(t.Context(), &b, outbox.Row{Kind: outbox.Kick, Topic: turn.Topic, Key: "waits", Delay: time.Hour})
		if err := s.DB.Do(t.Context(), e.Workspace, &b); err != nil {
			t.Fatal(err)
		}
		asks := func() error {
			_, err := s.Reason.Models(e.Workspace).Generate(t.Context(), llm.Request{
				System: "You chat.", Messages: []llm.Message{{Role: llm.RoleUser, Text: "Hello"}}}, nil)
			return err
		}
		due := func() int {
			var b db.Batch
			n := s.Outbox.Due(&b, turn.Topic)
			if err := s.DB.Read(t.Context(), e.Workspace, &b); err != nil {
				t.Fatal(err)
			}
			return *n
		}
		for range 5 {
			if err := asks(); err == nil {
				t.Fatal("a model that is away has answered")
			}
		}
		well.Store(true)
		e.Skew.Advance(time.Minute)
		if n := due(); n != 0 {
			t.Fatalf("%d rows are due before the model answers", n)
		}
		if err := asks(); err != nil {
			t.Fatal(err)
		}
		if n := due(); n != 1 {
			t.Errorf("%d rows are due when the model answers", n)
		}
	})
}
