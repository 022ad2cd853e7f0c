package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// eventBatch is the largest number of events that one read returns.
const eventBatch = 200

// eventItem is one event. Its id is the cursor that continues after it.
type eventItem struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Subject   string          `json:"subject,omitempty"`
	TraceID   string          `json:"traceId,omitempty"`
	Data      json.RawMessage `json:"data"`
	CreatedAt time.Time       `json:"createdAt"`
}

// eventPage is the response to a client that polls.
type eventPage struct {
	Items      []eventItem `json:"items" nullable:"false"`
	NextCursor string      `json:"nextCursor" doc:"To go on from, also where nothing has happened"`
	Reset      bool        `json:"reset,omitempty" doc:"The cursor was of another database, as before the restore of a backup: begin anew"`
}

func eventItemOf(e event.Event) eventItem {
	return eventItem{
		ID: e.Cursor.String(), Kind: e.Kind, Subject: e.Subject, TraceID: e.Trace, Data: onTheWire(e.Data), CreatedAt: e.CreatedAt.UTC(),
	}
}

// eventItems returns the items that clients receive for an event. If the event begins or ends a run in a
// lane, a second item says that the lane was acquired or released. That item is not stored, because it
// would double what an acquire writes. Both items have the id of the event.
func eventItems(e event.Event) []eventItem {
	items := []eventItem{eventItemOf(e)}
	did, ok := strings.CutPrefix(e.Kind, "execution.")
	if !ok {
		return items
	}
	var run struct {
		Subject, Agent, Surface string
	}
	if json.Unmarshal(e.Data, &run) != nil || run.Subject == "" {
		return items
	}
	kind := "lane.released"
	if did == "started" || did == "resumed" {
		kind = "lane.acquired"
	}
	data, err := json.Marshal(map[string]string{"lane": run.Subject, "agent": run.Agent,
		"surface": surfaceName(trace.Surface(run.Surface)), "executionId": e.Subject})
	if err != nil { // cannot happen: texts always encode
		return items
	}
	return append(items, eventItem{ID: e.Cursor.String(), Kind: kind, Subject: run.Subject, TraceID: e.Trace, Data: data,
		CreatedAt: e.CreatedAt.UTC()})
}

// wanted reports whether a client that asked for kinds wants this one. A kind that ends with .* stands
// for all that begin with what precedes the star; without kinds, all are wanted.
func wanted(kinds []string, kind string) bool {
	return len(kinds) == 0 || slices.ContainsFunc(kinds, func(k string) bool {
		prefix, all := strings.CutSuffix(k, "*")
		return k == kind || all && strings.HasPrefix(kind, prefix)
	})
}

// stored returns the kinds by which the database can select: none when the client asked for kinds that
// are not stored as such.
func stored(kinds []string) []string {
	if slices.ContainsFunc(kinds, func(k string) bool { return strings.HasSuffix(k, "*") || k == "lane.acquired" || k == "lane.released" }) {
		return nil
	}
	return kinds
}

// onTheWire converts an event's data to the form of responses: keys in camelCase, and surfaces by
// their names.
func onTheWire(data json.RawMessage) json.RawMessage {
	var stored map[string]any
	if json.Unmarshal(data, &stored) != nil {
		return json.RawMessage("{}")
	}
	told := make(map[string]any, len(stored))
	for key, v := range stored {
		if prefix, ok := v.(string); ok && key == "surface" {
			v = surfaceName(trace.Surface(prefix))
		}
		told[camelCase(key)] = v
	}
	text, err := json.Marshal(told)
	if err != nil { // cannot happen: the values were decoded from JSON
		return json.RawMessage("{}")
	}
	return text
}

func camelCase(snake string) string {
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// following holds the parameters of a request for events.
type following struct {
	kinds []string
	after event.Cursor
	given bool // the request has a cursor; without one it starts at the present
	poll  bool // the client wants one page of JSON instead of a stream
}

var eventKind = pattern.New(`^[a-z_.]{1,100}$|^[a-z_.]{1,90}\.\*$`)

// followingOf reads a request's parameters. Last-Event-ID takes precedence over the query's cursor,
// because a browser that reconnects sends both.
func followingOf(r *http.Request) (following, *problem.Problem) {
	var f following
	var wrong []problem.FieldError
	for name, values := range r.URL.Query() {
		var err error
		switch name {
		case "kinds":
			f.kinds = strings.Split(values[0], ",")
			if len(f.kinds) > 32 || slices.ContainsFunc(f.kinds, func(k string) bool { return !eventKind().MatchString(k) }) {
				wrong = append(wrong, problem.At("query.kinds", "expected up to 32 kinds of events with commas between"))
			}
		case "cursor":
			f.given = true
			if f.after, err = event.ParseCursor(values[0]); err != nil {
				wrong = append(wrong, problem.At("query.cursor", "expected a cursor of this listing"))
			}
		default:
			wrong = append(wrong, problem.At(located("query."+name), "unknown query parameter"))
		}
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		var err error
		f.given = true
		if f.after, err = event.ParseCursor(last); err != nil {
			wrong = append(wrong, problem.At("header.Last-Event-ID", "expected the id of an event"))
		}
	}
	accept := r.Header.Get("Accept")
	f.poll = strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/event-stream")
	if wrong != nil {
		return f, invalid(wrong...)
	}
	return f, nil
}

// page answers a client that polls.
func (e *eventStream) page(w http.ResponseWriter, kinds []string, events []event.Event, next event.Cursor, reset bool) {
	p := eventPage{Items: make([]eventItem, 0, len(events)), NextCursor: next.String(), Reset: reset}
	for _, event := range events {
		for _, item := range eventItems(event) {
			if wanted(kinds, item.Kind) {
				p.Items = append(p.Items, item)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = encode(w, p) // encoding cannot fail
}
