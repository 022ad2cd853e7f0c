// Package sse streams responses as server-sent events. It writes the events, and limits how often a
// source is polled, how long a stream lasts, and how many streams a caller may have open.
package sse

import (
	"cmp"
	"context"
	"time"
)

// Streams configures the streams of a process.
type Streams struct {
	// Every is the interval at which a source is polled; 0: one second.
	Every time.Duration
	// For is the longest duration of a stream; 0: one minute. A client that reconnects is
	// authenticated again, and on Lambda no invocation runs on for a client that is gone.
	For time.Duration
	// Quiet is the interval after which an idle stream sends a comment, so that no proxy closes it;
	// 0: 10 seconds. The Engine Room misses it after 15 seconds.
	Quiet time.Duration
	// Most is the largest number of streams that a caller may have open; 0: 20.
	Most int
	// Drain ends all streams when it is closed. It may be nil.
	Drain <-chan struct{}
	// Clock makes the ticks of polls; nil: the system's clock.
	Clock Clock
}

// Clock returns ticks and a function that stops them.
type Clock interface {
	Ticks(every time.Duration) (ticks <-chan time.Time, stop func())
}

// OrDefault returns s with defaults for the fields that are zero.
func (s Streams) OrDefault() Streams {
	s.Every = cmp.Or(s.Every, time.Second)
	s.For = cmp.Or(s.For, time.Minute)
	s.Quiet = cmp.Or(s.Quiet, 10*time.Second)
	s.Most = cmp.Or(s.Most, 20)
	return s
}

// Ticks returns the ticks at which a shared reader polls its source, and a function that stops
// them.
func (s Streams) Ticks() (<-chan time.Time, func()) {
	if s.Clock != nil {
		return s.Clock.Ticks(s.Every)
	}
	look := time.NewTicker(s.Every)
	return look.C, look.Stop
}

// Sitting holds the timers of one stream.
type Sitting struct {
	streams Streams
	over    *time.Timer
	quiet   *time.Ticker
}

// Sit begins a stream. The caller must call End.
func (s Streams) Sit() *Sitting {
	return &Sitting{s, time.NewTimer(s.For), time.NewTicker(s.Quiet)}
}

// End stops the timers.
func (s *Sitting) End() {
	s.over.Stop()
	s.quiet.Stop()
}

// Spoke restarts the idle interval after something was sent.
func (s *Sitting) Spoke() { s.quiet.Reset(s.streams.Quiet) }

// Wait waits for news. quiet says that the idle interval has passed without any. on is false if the
// stream must end.
func (s *Sitting) Wait(ctx context.Context, news <-chan struct{}) (quiet, on bool) {
	select {
	case <-ctx.Done():
	case <-s.over.C:
	case <-s.streams.Drain:
	case <-s.quiet.C:
		return true, true
	case <-news:
		return false, true
	}
	return false, false
}
