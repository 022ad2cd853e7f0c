package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/capture"
)

// streamed is an event of a stream. An event without data carries the id from which to resume.
type streamed struct {
	id, kind string
	data     []byte
}

// eventsOf parses a piece of a stream. The piece consists of whole events.
func eventsOf(b []byte) iter.Seq[streamed] {
	return func(yield func(streamed) bool) {
		for event := range bytes.SplitSeq(b, []byte("\n\n")) {
			var s streamed
			for line := range strings.Lines(string(event)) {
				switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); name {
				case "id":
					s.id = value
				case "event":
					s.kind = value
				case "data":
					s.data = []byte(value)
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// follow prints events, one per line, until the stream is over or ctx ends. Some streams end early
// and are resumed after the last event; follow joins them into one.
func (c *console) follow(ctx context.Context, ask *operator, path string) error {
	w := &follower{c: c}
	path, given, _ := strings.Cut(path, "?")
	query, err := url.ParseQuery(given)
	if err != nil {
		return err
	}
	for ctx.Err() == nil && !w.over {
		w.Buffer = capture.Buffer{}
		if err := ask.send(ctx, http.MethodGet, path+"?"+query.Encode(), nil, w); err != nil {
			return err
		}
		if err := refusalOf(&w.Buffer); err != nil && ctx.Err() == nil {
			return err
		}
		query.Set(w.parameter(path), w.last)
	}
	return nil
}

// follower prints a stream as it arrives. It stores any other response.
type follower struct {
	capture.Buffer
	c    *console
	last string // the id of the last event
	over bool
}

// parameter returns the query parameter that names the event after which to resume.
func (f *follower) parameter(path string) string {
	if strings.HasSuffix(path, "/api/v1/events") {
		return "cursor"
	}
	return "after"
}

// Write implements [http.ResponseWriter].
func (f *follower) Write(b []byte) (int, error) {
	if f.Header().Get("Content-Type") != "text/event-stream" {
		return f.Buffer.Write(b)
	}
	for e := range eventsOf(b) {
		if e.id != "" {
			f.last = e.id
		}
		if e.kind == "" {
			continue
		}
		f.over = f.over || e.kind == "done"
		if f.c.json {
			// it was JSON before
			raw, _ := json.Marshal(map[string]any{"id": e.id, "event": e.kind, "data": json.RawMessage(e.data)})
			fmt.Fprintf(f.c.out, "%s\n", raw)
		} else {
			fmt.Fprintf(f.c.out, "%s %s\n", clean(e.kind), clean(string(e.data)))
		}
	}
	return len(b), nil
}

// Flush implements [http.Flusher].
func (f *follower) Flush() {}
