package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// NewHandler returns a handler that removes secrets from messages and attributes before inner
// receives them. It uses the redactor of the record's context or, without one, base, which may be
// nil. It must be the outermost handler, because it does not see the attributes of handlers around
// it.
//
// It stores the attributes of a logger and cleans them for each record, because a secret in them
// may become known later. Values that are not plain become JSON. Errors become their text.
func NewHandler(inner slog.Handler, base *Redactor) slog.Handler {
	return &handler{inner: inner, base: base, groups: []group{{}}}
}

type handler struct {
	inner  slog.Handler
	base   *Redactor
	groups []group // the top level, then the open groups
}

// group is an open group and the attributes that were added in it.
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

// attrs returns attributes without secrets. With hidden, they belong to a group with a sensitive
// name.
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

// any returns a value of any type without secrets, in the form in which the handlers of slog would
// write it. If a method of the value panics, the value is not written.
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
