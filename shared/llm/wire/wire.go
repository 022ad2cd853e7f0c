// Package wire holds what providers with an HTTP API and server-sent events have in common. An
// [Endpoint] sends the request and classifies failures. A [Reader] reads the stream. An [Answer]
// assembles the pieces.
//
// # Limits
//
// This package limits an answer, each event of it, what is kept of it, and what is quoted of its
// errors. An answer that is malformed or incomplete is [llm.ClassUnavailable]. An answer beyond a
// limit is [llm.ClassBadRequest]: a retry would only cost again.
//
// # The key
//
// Only the endpoint knows the key. A redactor that knows the key filters every error text, from any
// source. Redirects are not followed, because net/http would send headers such as x-api-key to the
// other host.
package wire

// Limits of what a provider sends, in bytes.
const (
	MaxStream = 64 << 20 // of an answer as events: a token takes about 300
	MaxWhole  = 16 << 20 // of an answer that is not streamed
	MaxEvent  = 4 << 20  // of one event
	MaxKept   = 8 << 20  // of text and calls
	MaxText   = 500      // of an error's text
	maxError  = 64 << 10 // of the body of an error
)
