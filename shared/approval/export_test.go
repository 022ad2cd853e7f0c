package approval

import "encoding/json"

// DigestOf is the digest of an approval.
func DigestOf(a Approval) (string, error) { return a.digest() }

// Plain is an object as an edited input is stored.
func Plain(object json.RawMessage) (json.RawMessage, error) { return rewritten(object, plain) }

// MaxAttempts is how often a call is tried that can't be made.
const MaxAttempts = maxAttempts
