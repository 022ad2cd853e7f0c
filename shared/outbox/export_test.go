package outbox

import "context"

// Backoff returns the delay after a failed attempt.
var Backoff = backoff

// LongestBackoff is its upper bound.
const LongestBackoff = longestBackoff

// The following functions are the ways in which a sender ends a claim.

func (s *Store) Sent(ctx context.Context, c Claimed) error {
	return s.end(ctx, c, ending{status: Sent})
}

func (s *Store) Retry(ctx context.Context, c Claimed, why error) error {
	return s.end(ctx, c, s.retried(c, why))
}

func (s *Store) Fail(ctx context.Context, c Claimed, why error) error {
	return s.end(ctx, c, ending{status: Failed, why: why})
}

func (s *Store) Uncertain(ctx context.Context, c Claimed, why error) error {
	return s.end(ctx, c, ending{status: Uncertain, why: why})
}

func (s *Store) Kill(ctx context.Context, c Claimed, why error) error {
	return s.end(ctx, c, ending{status: Dead, why: why})
}

// Owed returns how many claims [Sender.Settle] would give back.
func (s *Sender) Owed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.owed)
}
