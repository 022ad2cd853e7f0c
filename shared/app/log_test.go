package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestAnEventIsALineOfJSON(t *testing.T) {
	var out bytes.Buffer
	request := func(ctx context.Context) string { s, _ := ctx.Value(requestKey{}).(string); return s }
	log := app.NewLogger(&out, load(t, aws, pgURL, "LOG_LEVEL=warn"), request)
	ctx := context.WithValue(t.Context(), requestKey{}, "r-1")
	ctx = trace.WithWorkspace(trace.WithExecution(trace.With(ctx, "hb_0mh8c1v2q_a7x2p1k9d4"), "e-1"), "w-1")
	log.InfoContext(ctx, "too little")
	log.With("a", 1).WithGroup("g").WarnContext(ctx, "two\nlines", "b", 2)

	if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != 1 {
		t.Fatalf("%d lines:\n%s", lines, &out)
	}
	var got struct {
		Function, Msg, Level string
		Trace                string `json:"trace_id"`
		Execution            string `json:"execution_id"`
		Workspace            string
		Request              string `json:"request_id"`
		A                    int
		G                    struct{ B int }
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Function != "lanekeeper-heartbeat" || got.Request != "r-1" || got.Trace != "hb_0mh8c1v2q_a7x2p1k9d4" ||
		got.Execution != "e-1" || got.Workspace != "w-1" || got.A != 1 || got.G.B != 2 || got.Level != "WARN" {
		t.Errorf("got %s", &out)
	}
}

type requestKey struct{}
