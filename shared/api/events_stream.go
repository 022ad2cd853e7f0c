package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/live"
)

const (
	writeTime = 10 * time.Second // for a caller to take what is sent
	comeBack  = "retry: 2000\n"  // milliseconds
)

// Streams says how answers that go on are served.
type Streams struct {
	// Every is how often the store is asked for news; zero is once a second.
	Every time.Duration
	// For is how long an answer goes on; zero is a minute. Who comes back then is asked
	// anew who it is, and on Lambda no invocation is paid for that nobody needs.
	For time.Duration
	// Quiet is after how long without a word there is one, so that nobody on the way
	// takes the answer for dead; zero is a quarter of a minute.
	Quiet time.Duration
	// Drain ends all answers when it is closed. It may be nil.
	Drain <-chan struct{}
}

func (s Streams) orDefault() Streams {
	s.Every = cmp.Or(s.Every, time.Second)
	s.For = cmp.Or(s.For, time.Minute)
	s.Quiet = cmp.Or(s.Quiet, 15*time.Second)
	return s
}

// eventStream serves the events of a workspace as they happen.
type eventStream struct {
	server  *server
	events  *live.Events
	streams Streams
}

func newEventStream(s *server, events *live.Events, streams Streams) *eventStream {
	return &eventStream{server: s, events: events, streams: streams}
}

// serve answers with server-sent events, each of which can be resumed behind: first
// what has happened since the caller's cursor, then what happens. Who accepts JSON
// alone gets one page and comes back with its nextCursor. It is called by the Engine
// Room and by whoever follows.
func (e *eventStream) serve(w http.ResponseWriter, r *http.Request, ws db.Workspace) {
	f, p := followingOf(r)
	if p != nil {
		e.server.refuse(w, r, p)
		return
	}
	most := eventBatch
	if !f.given {
		most = 0 // the present position alone
	}
	// The first look is made before the answer begins, while it can still be refused.
	events, next, err := e.read(r.Context(), ws, f.after, f.kinds, most)
	reset := errors.Is(err, live.ErrReset)
	if err != nil && !reset {
		e.server.fail(w, r, err)
		return
	}
	if f.poll {
		e.page(w, events, next, reset)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	e.follow(r.Context(), w, ws, f.kinds, events, next, reset)
}

// follow sends events until the caller leaves, the time is over or the server
// drains. A caller that comes back with the last id loses nothing, so anything that
// goes wrong just ends the answer.
func (e *eventStream) follow(ctx context.Context, w http.ResponseWriter, ws db.Workspace, kinds []string, events []live.Event, next live.Cursor, reset bool) {
	over := time.NewTimer(e.streams.For)
	defer over.Stop()
	look, quiet := time.NewTicker(e.streams.Every), time.NewTicker(e.streams.Quiet)
	defer look.Stop()
	defer quiet.Stop()

	more := make(chan time.Time)
	close(more)

	// An id without data is kept by clients and shown to nobody.
	b := bytes.NewBufferString(comeBack)
	if len(events) == 0 && !reset {
		b.WriteString("id: " + next.String() + "\n\n")
	}
	for {
		if reset {
			eventLine(b, next.String(), "reset", map[string]string{"cursor": next.String()})
		}
		for _, event := range events {
			item := eventItemOf(event)
			eventLine(b, item.ID, item.Kind, item)
		}
		if b.Len() > 0 {
			if writeNow(w, b) != nil {
				return
			}
			quiet.Reset(e.streams.Quiet)
		}
		news := look.C
		if len(events) == eventBatch { // there is more to read
			news = more
		}
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-e.streams.Drain:
			return
		case <-quiet.C:
			b.WriteString(": still here\nid: " + next.String() + "\n\n")
		case <-news:
		}
		var err error
		events, next, err = e.read(ctx, ws, next, kinds, eventBatch)
		reset = errors.Is(err, live.ErrReset)
		if err != nil && !reset {
			if ctx.Err() == nil {
				e.server.Slog.WarnContext(ctx, "a stream of events ends early", "error", err)
			}
			return
		}
	}
}

// followed serves the route of events.
func followed(s *server, a huma.API, op huma.Operation) {
	newEventStream(s, s.Events, *s.Streams).handler()(s, a, op)
}

// handler puts the stream behind a route.
func (e *eventStream) handler() handler {
	return func(_ *server, a huma.API, op huma.Operation) {
		text := &huma.Schema{Type: huma.TypeString}
		page := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[eventPage](), true, "")
		op.Parameters = append(op.Parameters, []*huma.Param{
			{Name: "kinds", In: "query", Schema: text, Description: "Only these, with commas between; all without"},
			{Name: "cursor", In: "query", Schema: text, Description: "Go on behind this event; without it what happens from now on"},
			{Name: "Last-Event-ID", In: "header", Schema: text, Description: "The same, as browsers send it; counts before cursor"},
		}...)
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: text}, "application/json": {Schema: page},
		}}
		a.OpenAPI().AddOperation(&op)
		a.Adapter().Handle(&op, func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			e.serve(w, r, workspace(r.Context()))
		})
	}
}

func (e *eventStream) read(ctx context.Context, ws db.Workspace, after live.Cursor, kinds []string, most int) ([]live.Event, live.Cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return e.events.Read(ctx, ws, after, kinds, most)
}
