package outbox

import "context"

// Backoff is how long a row waits after a try.
var Backoff = backoff

// LongestBackoff bounds it.
const LongestBackoff = longestBackoff

// What a sender makes of a claim, one by one.

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
