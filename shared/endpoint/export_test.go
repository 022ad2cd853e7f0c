package endpoint

// Next returns the delay after a failed attempt.
var Next = next

// RetryAfter reads the header of that name.
var RetryAfter = retryAfter
