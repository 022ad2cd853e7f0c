package api

import (
	"bytes"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/observe"
)

const metricsPath = "/metrics"

// scraped serves the metrics in Prometheus' text format. A member of a workspace gets the figures of
// that workspace's rows. The local admin and a caller on this machine get the figures of all workspaces'
// rows and the counters of this process, which cover all workspaces.
func scraped(s *server, a huma.API, op huma.Operation) {
	op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{
		observe.TextType: {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
	a.OpenAPI().AddOperation(&op)
	a.Adapter().Handle(&op, func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		by, known := auth.From(r.Context())
		ws, counted := by.Workspace, (*observe.Meters)(nil)
		if !known || by.Kind == auth.Local {
			ws, counted = "", s.Meters
			sent := s.DB.Stats()
			counted.Database(sent.Statements, sent.RoundTrips)
		}
		gauges, err := s.gauges.Read(r.Context(), ws)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		var text bytes.Buffer
		_ = counted.Write(&text, gauges) // a buffer takes all
		w.Header().Set("Content-Type", observe.TextType)
		_, _ = w.Write(text.Bytes()) // the client may have disconnected
	})
}

// exceptLoopback passes a request that a program on this machine sent without a credential to free,
// and all others to guarded.
func exceptLoopback(guarded, free http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromHere(r) {
			free.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// fromHere reports whether a program on this machine sent a request without a credential. A reverse
// proxy on this machine passes on the requests of others. It adds a header that says so, or keeps the
// name in the Host header.
func fromHere(r *http.Request) bool {
	for name := range r.Header {
		if name == "Authorization" || name == "Cookie" || name == "Forwarded" || name == "Via" ||
			strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			return false
		}
	}
	to, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && to.IP.IsLoopback() && loopbackHost(r.RemoteAddr) && loopbackHost(r.Host)
}

// loopbackHost reports whether an address, with or without a port, is this machine's own.
func loopbackHost(address string) bool {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	address = strings.Trim(address, "[]")
	ip := net.ParseIP(address)
	return strings.EqualFold(address, "localhost") || ip != nil && ip.IsLoopback()
}
