package approval

import "encoding/json"

// DigestOf returns the digest of an approval.
func DigestOf(a Approval) (string, error) { return a.digest() }

// Plain returns an object in the form in which an edited input is stored.
func Plain(object json.RawMessage) (json.RawMessage, error) { return rewritten(object, plain) }

// MaxAttempts limits how often a call is tried that can't be made.
const MaxAttempts = maxAttempts
