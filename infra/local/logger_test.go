package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/app"
)

// TestTheLogNeverTellsWhatTheEnvironmentKeepsSecret checks secrets that don't look like any: only the
// configuration knows them.
func TestTheLogNeverTellsWhatTheEnvironmentKeepsSecret(t *testing.T) {
	environ := []string{"ADMIN_TOKEN=plum-harbour-lantern", "REDIS_URL=redis://:walnut-tide@localhost:6379"}
	cfg, err := app.LoadConfig(environ)
	if err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		c := &console{environ: environ, json: asJSON}
		c.logger(&out, cfg, slog.LevelInfo).Info("the far end said plum-harbour-lantern", "answer", "no: walnut-tide")
		if said := out.String(); !strings.Contains(said, "the far end said") || strings.Contains(said, "plum-harbour") ||
			strings.Contains(said, "walnut") {
			t.Errorf("with JSON %t it says %s", asJSON, said)
		}
	}
}
