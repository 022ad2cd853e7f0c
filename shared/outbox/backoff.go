package outbox

import "time"

const (
	firstBackoff   = 5 * time.Second
	longestBackoff = 5 * time.Minute
	longestAsked   = time.Hour // the longest delay that an error may ask for
)

// backoff returns the delay after a failed attempt, with full jitter: a random time below a bound
// that doubles with each attempt. The jitter spreads rows that failed together.
func backoff(attempt int, random float64) time.Duration {
	bound := longestBackoff
	if doublings := attempt - 1; doublings < 16 {
		bound = min(bound, firstBackoff<<max(0, doublings))
	}
	return time.Duration(random * float64(bound))
}
