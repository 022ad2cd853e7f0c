package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// NewHandler returns a handler that takes secrets out of messages and attributes
// before inner sees them: with the redactor of the record's context or, where it
// has none, with base, which may be nil. It stands around all other handlers, whose
// own attributes it does not see.
//
// Attributes given to a logger are kept, and cleaned with each record: a secret in
// one may become known later. Values that are not plain become JSON, errors their
// text.
func NewHandler(inner slog.Handler, base *Redactor) slog.Handler {
	return &handler{inner: inner, base: base, groups: []group{{}}}
}

type handler struct {
	inner  slog.Handler
	base   *Redactor
	groups []group // the top level, then those that are open
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
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	r := From(ctx)
	if r == nil {
		r = h.base
	}
	attrs := make([]slog.Attr, 0, record.NumAttrs())
	record.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for i, g := range slices.Backward(h.groups) {
		attrs = slices.Concat(g.attrs, attrs)
		if i > 0 {
			attrs = []slog.Attr{{Key: g.name, Value: slog.GroupValue(attrs...)}}
		}
	}
	out := slog.NewRecord(record.Time, record.Level, r.Text(record.Message), record.PC)
	out.AddAttrs(r.attrs(attrs, false)...)
	return h.inner.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	groups := slices.Clone(h.groups)
	last := &groups[len(groups)-1]
	last.attrs = slices.Concat(last.attrs, attrs)
	return &handler{h.inner, h.base, groups}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{h.inner, h.base, append(slices.Clone(h.groups), group{name: name})}
}

// attrs are attributes without secrets; hidden says that they stand in a group whose
// name tells of one.
func (r *Redactor) attrs(attrs []slog.Attr, hidden bool) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = slog.Attr{Key: r.Text(a.Key), Value: r.value(a.Value, hidden || sensitive(a.Key))}
	}
	return out
}

func (r *Redactor) value(v slog.Value, hidden bool) slog.Value {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.GroupValue(r.attrs(v.Group(), hidden)...)
	case slog.KindBool:
		return v
	case slog.KindString:
		if hidden && v.String() != "" {
			return slog.StringValue(Mark)
		}
		return slog.StringValue(r.Text(v.String()))
	case slog.KindAny:
		if v.Any() == nil {
			return v
		}
		if hidden {
			return slog.StringValue(Mark)
		}
		return r.any(v.Any())
	}
	if hidden || r.knows(v.String()) {
		return slog.StringValue(Mark)
	}
	return v
}

// any is a value of whatever type without secrets, as the handlers of slog would
// write it. One whose methods panic is not written at all.
func (r *Redactor) any(v any) (out slog.Value) {
	defer func() {
		if recover() != nil {
			out = slog.StringValue("[panicked]")
		}
	}()
	switch v := v.(type) {
	case json.Marshaler:
	case error:
		return slog.StringValue(r.Text(v.Error()))
	case []byte:
		return slog.StringValue(r.Text(string(v)))
	case *slog.Source:
		return slog.AnyValue(v)
	}
	text, err := jsonscan.Encode(v)
	if err != nil {
		return slog.StringValue(r.Text(fmt.Sprintf("%+v", v)))
	}
	raw := r.JSON(json.RawMessage(text))
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return slog.StringValue(text)
	}
	return slog.AnyValue(raw)
}
