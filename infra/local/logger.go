package main

import (
	"io"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// logger returns a logger that redacts secrets, among them those of the configuration. It prints a story for a
// person or, with --json, one line of JSON per event.
func (c *console) logger(w io.Writer, cfg app.Config, level slog.Leveler) *slog.Logger {
	var h slog.Handler = newStory(newPaper(w, c.environ), level)
	if c.json {
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	}
	return slog.New(redact.NewHandler(trace.NewHandler(h), cfg.Known()))
}
