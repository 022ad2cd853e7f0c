package endpoint

import "time"

// steps are the times of the attempts after the first one, as in Standard Webhooks.
var steps = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	maxAttempts = len(steps) + 1
	allTime     = 24 * time.Hour // from the first attempt to the last
	jitter      = 0.1            // of a delay, so that deliveries that failed together spread
)

// next returns the delay after a failed attempt, or false if there is no further attempt. attempt is
// its number, from 1, and since the time that has passed since the first one ended. asked is the delay
// that the receiver asks for. random is in [0, 1).
func next(attempt int, since, asked time.Duration, random float64) (time.Duration, bool) {
	left := allTime - since
	if attempt >= maxAttempts || left <= 0 {
		return 0, false
	}
	delay := steps[attempt-1]
	if attempt > 1 {
		delay -= steps[attempt-2]
	}
	delay += time.Duration(jitter * random * float64(delay))
	return min(max(delay, asked), left), true
}
