package trace

import (
	"context"
	"log/slog"
	"slices"
)

// NewHandler returns a handler that passes every record to inner and adds trace_id, execution_id
// and workspace from the record's context, where the context has them. Handle adds them, so only
// calls with a context (InfoContext, LogAttrs, …) carry them.
//
// The attributes are always at the top level, even when the logger has open groups. For this reason
// the handler does not pass the first open group, and what comes after it, to inner's WithGroup. It
// keeps them and adds them to each record. inner prints the same text, but can't preformat it.
func NewHandler(inner slog.Handler) slog.Handler { return &handler{inner: inner} }

type handler struct {
	inner  slog.Handler // has the attributes given before the first group
	groups []group      // open groups, outermost first
}

// group is an open group with the attributes given after it was opened.
type group struct {
	name  string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if len(h.groups) > 0 {
		r = h.nested(r)
	} else {
		r = r.Clone() // a record's copies share their attributes
	}
	c := carriedBy(ctx)
	if c.id != "" {
		r.AddAttrs(slog.String("trace_id", string(c.id)))
	}
	if c.execution != "" {
		r.AddAttrs(slog.String("execution_id", c.execution))
	}
	if c.workspace != "" {
		r.AddAttrs(slog.String("workspace", c.workspace))
	}
	return h.inner.Handle(ctx, r)
}

// nested returns r with its attributes inside the open groups.
func (h *handler) nested(r slog.Record) slog.Record {
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for _, g := range slices.Backward(h.groups) {
		all := slices.Concat(g.attrs, attrs)
		attrs = []slog.Attr{{Key: g.name, Value: slog.GroupValue(all...)}}
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(attrs...)
	return out
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	if len(h.groups) == 0 {
		return &handler{inner: h.inner.WithAttrs(attrs)}
	}
	groups := slices.Clone(h.groups)
	last := &groups[len(groups)-1]
	last.attrs = slices.Concat(last.attrs, attrs)
	return &handler{inner: h.inner, groups: groups}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{inner: h.inner, groups: append(slices.Clone(h.groups), group{name: name})}
}
