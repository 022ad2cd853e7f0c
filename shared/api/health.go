package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// checkLimit is how long a part may take to say that it is there.
const checkLimit = 2 * time.Second

// healthAnswer tells how each part is; who has no role sees only the status.
type healthAnswer struct {
	Status   string `json:"status" enum:"healthy,degraded,unhealthy"`
	Database string `json:"database,omitempty" enum:"connected,down"`
	Valkey   string `json:"valkey,omitempty" enum:"connected,down,disabled"`
	Gateway  string `json:"gateway,omitempty" enum:"reachable,unreachable,disabled"`
}

type healthOutput struct {
	Status int
	Body   healthAnswer
}

// health asks each part whether it is there. It is called by load balancers,
// alarms and lanekeeper doctor, and with a token by the Engine Room.
func (s *server) health(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	h := healthAnswer{Status: "healthy", Database: "connected", Valkey: "disabled", Gateway: "disabled"}
	var wg sync.WaitGroup
	wg.Go(func() {
		if !s.there(ctx, "database", s.DB.Check) {
			h.Database = "down"
		}
	})
	if s.Valkey != nil {
		h.Valkey = "connected"
		wg.Go(func() {
			if !s.there(ctx, "valkey", s.Valkey) {
				h.Valkey = "down"
			}
		})
	}
	wg.Wait()
	out := &healthOutput{Status: http.StatusOK}
	switch {
	case h.Database == "down": // nothing works without it
		h.Status, out.Status = "unhealthy", http.StatusServiceUnavailable
	case h.Valkey == "down":
		h.Status = "degraded"
	}
	if by, _ := auth.From(ctx); by.Role == "" { // a stranger, an agent, or a site, whose key everybody can read
		h = healthAnswer{Status: h.Status}
	}
	out.Body = h
	return out, nil
}

func (s *server) there(ctx context.Context, part string, check func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	err := check(ctx)
	if err != nil {
		s.Slog.WarnContext(ctx, "a part is not well", "part", part, "error", err)
	}
	return err == nil
}
