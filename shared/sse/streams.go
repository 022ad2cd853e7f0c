// Package sse serves answers that go on: it writes server-sent events, and says how often the
// source of an answer is asked for news, how long an answer goes on, and how many a caller may have.
package sse

import (
	"cmp"
	"context"
	"time"
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
	// Most is how many a caller may have open at once; zero is 20.
	Most int
	// Drain ends all answers when it is closed. It may be nil.
	Drain <-chan struct{}
	// Clock says when the store is asked; nil: the system's clock.
	Clock Clock
}

// Clock makes ticks, and a function that stops them.
type Clock interface {
	Ticks(every time.Duration) (ticks <-chan time.Time, stop func())
}

// OrDefault is s with the defaults of what is not set.
func (s Streams) OrDefault() Streams {
	s.Every = cmp.Or(s.Every, time.Second)
	s.For = cmp.Or(s.For, time.Minute)
	s.Quiet = cmp.Or(s.Quiet, 15*time.Second)
	s.Most = cmp.Or(s.Most, 20)
	return s
}

// Ticks are the times at which a reader looks for all who share it.
func (s Streams) Ticks() (<-chan time.Time, func()) {
	if s.Clock != nil {
		return s.Clock.Ticks(s.Every)
	}
	look := time.NewTicker(s.Every)
	return look.C, look.Stop
}

// Sitting is an answer that goes on: its time and its pauses.
type Sitting struct {
	streams Streams
	over    *time.Timer
	quiet   *time.Ticker
}

// Sit begins a sitting. Its End must be called.
func (s Streams) Sit() *Sitting {
	return &Sitting{s, time.NewTimer(s.For), time.NewTicker(s.Quiet)}
}

// End ends the sitting.
func (s *Sitting) End() {
	s.over.Stop()
	s.quiet.Stop()
}

// Spoke puts the next word off that is said only to be heard.
func (s *Sitting) Spoke() { s.quiet.Reset(s.streams.Quiet) }

// Wait waits for news; quiet says that there was none for long. false: the answer ends.
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
