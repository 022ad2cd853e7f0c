package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// story is a slog.Handler that shows a person what is happening. It prints a beat and its work as
// an indented story, and every other event on its own line.
type story struct {
	level slog.Leveler
	page  *page
	attrs []slog.Attr // given by With, with the open groups in their keys
	group string      // open groups as a prefix: "a.b."
}

// page is shared by all handlers of one logger.
type page struct {
	mu    sync.Mutex
	paper paper
	trace string // trace of the story that was opened last
}

func newStory(p paper, level slog.Leveler) *story {
	return &story{level: level, page: &page{paper: p}}
}

// Enabled implements slog.Handler.
func (s *story) Enabled(_ context.Context, level slog.Level) bool { return level >= s.level.Level() }

// WithAttrs implements slog.Handler.
func (s *story) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *s
	with.attrs = slices.Clone(s.attrs)
	for _, a := range attrs {
		with.attrs = flatten(with.attrs, s.group, a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (s *story) WithGroup(name string) slog.Handler {
	with := *s
	if name != "" {
		with.group += name + "."
	}
	return &with
}

// flatten appends an attribute to a list. Groups become dotted keys.
func flatten(to []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return to
	}
	if a.Value.Kind() != slog.KindGroup {
		a.Key = prefix + a.Key
		return append(to, a)
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range a.Value.Group() {
		to = flatten(to, prefix, inner)
	}
	return to
}

// Handle implements slog.Handler.
func (s *story) Handle(_ context.Context, r slog.Record) error {
	e := event{Record: r, attrs: slices.Clone(s.attrs)}
	r.Attrs(func(a slog.Attr) bool {
		e.attrs = flatten(e.attrs, s.group, a)
		return true
	})
	s.page.mu.Lock()
	defer s.page.mu.Unlock()
	s.page.print(e)
	return nil
}

// print prints an event. An indented line names its trace if that is not the trace of the current
// story.
func (p *page) print(e event) {
	line, known := lines[e.Message]
	if !known || e.Level < slog.LevelInfo {
		line = other
	}
	l := line(e)
	id := e.text("trace_id")
	if l.opens {
		p.trace = id
	}
	var spans []span
	if l.indent == 0 && !e.Time.IsZero() {
		spans = append(spans, span{dim, e.Time.Format(time.TimeOnly) + " "})
	} else {
		spans = append(spans, span{plain, strings.Repeat(" ", clock+2*l.indent)})
	}
	spans = append(spans, l.spans...)
	if l.indent > 0 && id != p.trace && id != "" {
		spans = append(spans, span{dim, " · " + id})
	}
	p.paper.print(l.whole || e.Level >= slog.LevelWarn, spans...)
}

// clock is the number of columns of the time.
const clock = len(time.TimeOnly) + 1
