package api

import (
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// public is the least role of a route that asks for no token.
const public auth.Role = ""

// route is one operation of the API.
type route struct {
	method, path string
	id           string    // operation id
	least        auth.Role // what the caller must be
	handler      handler
	caller       string // who calls it
	summary      string
	also         []int // statuses that answer the same body as 200
	refusals     []int // statuses that answer a problem, beside those any route may

	surface trace.Surface // whose traces it starts; empty: operate's
	patient bool          // it may take longer than the API's time limit
}

// routes is the table of all routes; nothing is served that is not in it.
func routes(s *server) []route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
		v1   = "/api/v1"
	)
	return []route{
		{method: get, path: "/health", id: "get-health", least: public, handler: typed(s.health), also: []int{503},
			caller: "load balancers, alarms, lanekeeper doctor; with a token the Engine Room", summary: "Is it working?"},

		{method: post, path: v1 + "/heartbeat/run", id: "run-heartbeat", least: auth.Admin, handler: typed(s.runHeartbeat), also: []int{202}, refusals: []int{409},
			surface: trace.Heartbeat, patient: true,
			caller: "the Engine Room, lanekeeper trigger heartbeat, scripts", summary: "Run a beat by hand, every phase of it"},

		{method: get, path: v1 + "/traces/{traceId}", id: "get-trace", least: auth.Member, handler: typed(s.getTrace), refusals: []int{404},
			caller: "the Engine Room, lanekeeper trace, whoever follows an X-Trace-Id", summary: "The whole story of one trace"},
		{method: get, path: v1 + "/activity", id: "list-activity", least: auth.Member, handler: typed(s.listActivity),
			caller: "the Engine Room's feed, scripts", summary: "What agents did, newest first"},

		{method: get, path: v1 + "/lanes", id: "list-lanes", least: auth.Member, handler: typed(s.listLanes),
			caller: "the Engine Room, lanekeeper locks", summary: "The lanes held now, longest held first"},
		{method: get, path: v1 + "/lanes/{lane}/why", id: "explain-lane", least: auth.Member, handler: typed(s.explainLane),
			caller: "the Engine Room, agents that were refused a lane", summary: "Why a lane is free or not"},
		{method: post, path: v1 + "/lanes/{lane}/acquire", id: "acquire-lane", least: auth.Admin, handler: typed(s.acquireLane), refusals: []int{409},
			caller: "agents without a database connection", summary: "Take a lane"},
		{method: post, path: v1 + "/lanes/{lane}/renew", id: "renew-lane", least: auth.Admin, handler: typed(s.renewLane), refusals: []int{409},
			caller: "whoever acquired the lane", summary: "Keep a lane"},
		{method: post, path: v1 + "/lanes/{lane}/release", id: "release-lane", least: auth.Admin, handler: typed(s.releaseLane), refusals: []int{409},
			caller: "whoever acquired the lane", summary: "Give a lane back"},
		{method: post, path: v1 + "/lanes/{lane}/force-release", id: "force-release-lane", least: auth.Admin, handler: typed(s.forceReleaseLane),
			caller: "the Engine Room, lanekeeper locks release", summary: "End somebody else's hold on a lane"},

		{method: get, path: "/openapi.json", id: "get-openapi-json", least: public, handler: file(&s.docs.json),
			caller: "client generators, the page at /docs", summary: "This description, as JSON"},
		{method: get, path: "/openapi.yaml", id: "get-openapi-yaml", least: public, handler: file(&s.docs.yaml),
			caller: "client generators", summary: "This description, as YAML"},
		{method: get, path: "/docs", id: "get-docs", least: public, handler: file(&s.docs.page),
			caller: "people", summary: "This description, as a page"},
		{method: get, path: "/docs/docs.js", id: "get-docs-script", least: public, handler: file(&s.docs.script),
			caller: "the page at /docs", summary: "Its script"},
		{method: get, path: "/docs/docs.css", id: "get-docs-style", least: public, handler: file(&s.docs.style),
			caller: "the page at /docs", summary: "Its style"},
	}
}
