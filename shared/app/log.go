package app

import (
	"context"
	"io"
	"log/slog"

	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// NewLogger returns a logger that writes one line of JSON per event. Each line has the trace, the
// execution and the workspace of its context and, on Lambda, the function's name. Secrets are
// redacted. request returns the request id of a context; it may be nil. NewLogger is called by
// package edge.
func NewLogger(w io.Writer, cfg Config, request func(context.Context) string) *slog.Logger {
	var h slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.LogLevel})
	if request != nil {
		h = &requests{h, request}
	}
	log := slog.New(redact.NewHandler(trace.NewHandler(h), cfg.Known()))
	if cfg.OnLambda() {
		log = log.With("function", cfg.Function)
	}
	return log
}

// requests adds the request id to each record. It sees no groups, because the trace handler around
// it handles them, so the id is always at the top level.
type requests struct {
	slog.Handler
	of func(context.Context) string
}

func (r *requests) Handle(ctx context.Context, record slog.Record) error {
	if id := r.of(ctx); id != "" {
		record = record.Clone()
		record.AddAttrs(slog.String("request_id", id))
	}
	return r.Handler.Handle(ctx, record)
}

func (r *requests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &requests{r.Handler.WithAttrs(attrs), r.of}
}

func (r *requests) WithGroup(name string) slog.Handler {
	return &requests{r.Handler.WithGroup(name), r.of}
}
