package outbox

// Backoff is how long a row waits after a try.
var Backoff = backoff

// LongestBackoff bounds it.
const LongestBackoff = longestBackoff
