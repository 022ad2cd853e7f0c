package outbox

import "time"

const (
	firstBackoff   = 5 * time.Second
	longestBackoff = 5 * time.Minute
	longestAsked   = time.Hour // that an error may put a try off
)

// backoff is how long a row waits after its attempt-th try: anything up to a bound
// that doubles with each of them, so that those who failed together don't come
// back together.
func backoff(attempt int, random float64) time.Duration {
	bound := longestBackoff
	if doublings := attempt - 1; doublings < 16 {
		bound = min(bound, firstBackoff<<max(0, doublings))
	}
	return time.Duration(random * float64(bound))
}
