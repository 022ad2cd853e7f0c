package channel_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/channel"
)

func TestOneBoundedLine(t *testing.T) {
	for _, body := range []string{"hello\n{\"level\":\"ERROR\"}", strings.Repeat("ö", 100_000)} {
		var out bytes.Buffer
		m := message("console")
		m.Body = body
		if err := (&channel.Log{Slog: logger(&out)}).Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var line struct {
			Msg, Thread, Address, Body string
			Bytes                      int
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("not one line: %v", err)
		}
		if line.Msg != "message" || line.Thread != m.Thread || line.Address != "console" || line.Bytes != len(body) || out.Len() > 5000 || strings.Contains(out.String(), m.Key) {
			t.Errorf("logged %.500s", out.String())
		}
		if kept, cut := strings.CutSuffix(line.Body, "…"); !strings.HasPrefix(body, kept) || cut == (kept == body) {
			t.Errorf("logged %.100q…", line.Body)
		}
	}
	var out bytes.Buffer
	if err := (&channel.Log{Slog: logger(&out)}).Send(t.Context(), message("")); class(err) != "permanent" || out.Len() > 0 {
		t.Errorf("without an address: %v, %s", err, out.String())
	}
}
