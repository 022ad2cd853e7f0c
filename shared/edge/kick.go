package edge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/surface/heartbeat"
)

// Invoke starts an invocation of a function and does not wait for it. Package invoke, below this one,
// has it for the functions that invoke others.
type Invoke func(ctx context.Context, function string, payload []byte) error

// pace is the time of the last kick by [Sandbox.KickOperate].
type pace struct {
	mu     sync.Mutex
	kicked time.Time
}

// Kick starts an invocation for one workspace's tick and does not wait for it. It is the heartbeat's
// fan-out. If a kick is lost, the next tick of the schedule serves the workspace.
func (s *Sandbox) Kick(ctx context.Context, t heartbeat.Tick) error {
	payload, err := encodeTick(t)
	if err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	if err := s.invoke(ctx, s.cfg.Function, payload); err != nil {
		return fmt.Errorf("kick workspace %s: %w", t.Workspace, err)
	}
	return nil
}

// KickTend invokes the function that TEND_FUNCTION names, which does what is due, and does not wait
// for it. If a kick is lost, that function's own schedule does the work. Without TEND_FUNCTION it does
// nothing.
func (s *Sandbox) KickTend(ctx context.Context) error {
	if s.cfg.TendFunction == "" {
		return nil
	}
	if err := s.invoke(ctx, s.cfg.TendFunction, []byte(`{"source":"`+tendSource+`"}`)); err != nil {
		return fmt.Errorf("kick %s: %w", s.cfg.TendFunction, err)
	}
	return nil
}

// KickOperate is [Sandbox.KickTend] for callers that store many rows in a short time. It sends at most
// one kick a second and delays the response by at most two seconds. Rows that are stored after the kick
// are found by the invocation that it started, or by the schedule within a minute. It is called by
// functions/webhook, whose response does not depend on it.
func (s *Sandbox) KickOperate(ctx context.Context, _ db.Workspace) {
	if !s.pace.allows(s.clock()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kickTimeout)
	defer cancel()
	if err := s.KickTend(ctx); err != nil {
		s.log.WarnContext(ctx, "operate could not be kicked: its schedule does what is due", "error", err)
	}
}

const (
	// kickPause is the shortest time between two kicks.
	kickPause = time.Second
	// kickTimeout is the longest time by which a kick may delay a response.
	kickTimeout = 2 * time.Second
)

// allows reports whether kickPause has passed since the last kick. If so, it records this kick.
func (p *pace) allows(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := now.Sub(p.kicked)
	if since >= 0 && since < kickPause {
		return false
	}
	p.kicked = now
	return true
}
