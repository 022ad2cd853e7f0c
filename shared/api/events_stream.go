package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/follow"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

// eventStream serves the events of a workspace as they happen.
type eventStream struct {
	server  *server
	events  *event.Store
	streams sse.Streams
	shared  *follow.Hub[db.Workspace, event.Cursor, event.Event]
}

func newEventStream(s *server, events *event.Store, streams sse.Streams) *eventStream {
	e := &eventStream{server: s, events: events, streams: streams}
	e.shared = &follow.Hub[db.Workspace, event.Cursor, event.Event]{Look: e.look, Compare: event.Cursor.Compare, Ticks: streams.Ticks}
	return e
}

// look reads events for all followers of a workspace.
func (e *eventStream) look(ctx context.Context, ws db.Workspace, after event.Cursor) (page follow.Page[event.Cursor,
	event.Event], err error) {
	events, next, err := e.read(ctx, ws, after, nil, eventBatch)
	page.Next, page.More = next, len(events) == eventBatch
	for _, e := range events {
		page.Items = append(page.Items, follow.Item[event.Cursor, event.Event]{After: e.Cursor, What: e})
	}
	return page, err
}

// serve answers with server-sent events: first those since the client's cursor, then new ones. A
// client can resume after any event. A client that accepts only JSON gets one page and continues
// with its nextCursor. It is called by the Engine Room and by other followers.
func (e *eventStream) serve(w http.ResponseWriter, r *http.Request, ws db.Workspace) {
	f, p := followingOf(r)
	if p != nil {
		e.server.refuse(w, r, p)
		return
	}
	if !f.poll {
		closed, ok := e.server.stream(w, r)
		if !ok {
			return
		}
		defer closed()
	}
	most := eventBatch
	if !f.given {
		most = 0 // the present position only
	}
	// The first read is made before the response begins, so that an error can still be answered.
	events, next, err := e.read(r.Context(), ws, f.after, stored(f.kinds), most)
	reset := errors.Is(err, event.ErrReset)
	if err != nil && !reset {
		e.server.fail(w, r, err)
		return
	}
	if f.poll {
		e.page(w, f.kinds, events, next, reset)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	sse.Head(w)
	if r.Method == http.MethodHead {
		return
	}
	e.follow(r.Context(), w, ws, f.kinds, events, next, reset)
}

// follow sends events until the client disconnects, the time is up or the server drains. A client
// that reconnects with the last id misses nothing, so any error just ends the response. A client
// that has caught up shares a reader with all followers of the workspace in this process.
func (e *eventStream) follow(ctx context.Context, w http.ResponseWriter, ws db.Workspace, kinds []string,
	events []event.Event, next event.Cursor, reset bool) {
	sitting := e.streams.Sit()
	defer sitting.End()
	var f *follow.Follower[db.Workspace, event.Cursor, event.Event]
	leave := func() {
		if f != nil {
			f.Leave(ctx)
		}
		f = nil
	}
	defer func() { leave() }()
	more := make(chan struct{})
	close(more)

	// Clients store an id without data and show no event.
	b := bytes.NewBufferString(sse.ComeBack)
	if len(events) == 0 && !reset {
		b.WriteString("id: " + next.String() + "\n\n")
	}
	for {
		if reset {
			sse.Event(b, next.String(), "reset", map[string]string{"cursor": next.String()})
		}
		for _, event := range events {
			writeItems(b, kinds, event)
		}
		if b.Len() > 0 {
			if sse.Send(w, b) != nil {
				return
			}
			sitting.Spoke()
		}
		if f == nil && len(events) < eventBatch { // the client has caught up
			f = e.shared.Follow(ctx, ws, next)
		}
		var news <-chan struct{} = more
		if f != nil {
			news = f.News()
		}
		quiet, on := sitting.Wait(ctx, news)
		if !on {
			return
		}
		if quiet {
			b.WriteString(": still here\nid: " + next.String() + "\n\n")
		}
		err := follow.ErrMissed
		if f != nil {
			var page follow.Page[event.Cursor, event.Event]
			page, err = f.Next()
			events, next = eventsOf(page.Items), page.Next
		}
		if errors.Is(err, follow.ErrMissed) || errors.Is(err, event.ErrReset) { // read for this client only
			leave()
			events, next, err = e.read(ctx, ws, next, stored(kinds), eventBatch)
		}
		reset = errors.Is(err, event.ErrReset)
		if err != nil && !reset {
			if ctx.Err() == nil {
				e.server.Log.WarnContext(ctx, "a stream of events ends early", "error", err)
			}
			return
		}
	}
}

// writeItems appends the items of an event. Only the last item has the event's id, so that a client that
// received only the first one resumes before the event.
func writeItems(b *bytes.Buffer, kinds []string, e event.Event) {
	items := slices.DeleteFunc(eventItems(e), func(i eventItem) bool { return !wanted(kinds, i.Kind) })
	for i, item := range items {
		id := ""
		if i == len(items)-1 {
			id = item.ID
		}
		sse.Event(b, id, item.Kind, item)
	}
}

func eventsOf(items []follow.Item[event.Cursor, event.Event]) []event.Event {
	events := make([]event.Event, len(items))
	for i, item := range items {
		events[i] = item.What
	}
	return events
}

// followed serves the route of events.
func followed(s *server, a huma.API, op huma.Operation) {
	newEventStream(s, s.Events, *s.Streams).handler()(s, a, op)
}

// handler registers the stream for a route.
func (e *eventStream) handler() handler {
	return func(_ *server, a huma.API, op huma.Operation) {
		text := &huma.Schema{Type: huma.TypeString}
		page := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[eventPage](), true, "")
		op.Parameters = append(op.Parameters, []*huma.Param{
			{Name: "kinds", In: "query", Schema: text,
				Description: "Only these, with commas between, and task.* for all that begin so; all without"},
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

func (e *eventStream) read(ctx context.Context, ws db.Workspace, after event.Cursor, kinds []string,
	most int) ([]event.Event, event.Cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return e.events.Read(ctx, ws, after, kinds, most)
}
