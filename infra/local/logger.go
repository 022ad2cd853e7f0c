package main

import (
	"io"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// logger returns a logger that redacts secrets. It prints a story for a person or, with --json, one
// line of JSON per event.
func (c *console) logger(w io.Writer, level slog.Leveler) *slog.Logger {
	if c.json {
		return slog.New(redact.NewHandler(trace.NewHandler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil))
	}
	return slog.New(redact.NewHandler(trace.NewHandler(newStory(newPaper(w, c.environ), level)), nil))
}
