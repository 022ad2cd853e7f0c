package wire_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/observe/observetest"
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
