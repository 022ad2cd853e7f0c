// Package wire is what providers that are spoken to over HTTP, and stream their
// answers as server-sent events, have in common: an [Endpoint] asks and tells what
// went wrong, a [Reader] takes the stream apart, an [Answer] puts the pieces
// together.
//
// # Bounds
//
// A provider is believed no more than needed: its answer, one event of it, what is
// kept of it, and what is repeated of its errors are bounded. An answer that is
// malformed or ends before its end is [llm.ClassUnavailable]; one beyond a bound is
// [llm.ClassBadRequest], for it would only be paid for again.
//
// # The key
//
// The key is known to the endpoint alone. Every text of an error, whoever wrote it,
// goes through a redactor that knows the key. Redirects are not followed, for
// net/http would take headers such as x-api-key along to another host.
package wire

// Bounds of what a provider sends, in bytes.
const (
	MaxStream = 64 << 20 // of an answer as events: a token takes some 300
	MaxWhole  = 16 << 20 // of an answer in one piece
	MaxEvent  = 4 << 20  // of one event
	MaxKept   = 8 << 20  // of text and calls
	MaxText   = 500      // of what an error says
	maxError  = 64 << 10 // of an answer that is an error
)
