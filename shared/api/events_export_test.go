package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/event"
	"github.com/lanekeeper/lanekeeper/shared/sse"
)

// NewEventStream returns the handler of the events alone, without a guard.
func NewEventStream(d Deps, events *event.Store, streams sse.Streams) http.Handler {
	streams = streams.OrDefault()
	d.Streams = &streams
	s := &server{Deps: d, mux: http.NewServeMux()}
	e := newEventStream(s, events, streams)
	a := humago.New(s.mux, s.config())
	rt := route{method: http.MethodGet, path: "/api/v1/events", id: "follow-events"}
	e.handler()(s, a, operation(a, rt))
	return s.mux
}
