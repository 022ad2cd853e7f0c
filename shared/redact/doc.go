// Package redact takes secrets out of texts, JSON and log lines.
//
// A [Redactor] takes out the values that it knows, in the encodings they travel in, then what
// has a name that tells of a secret, then what looks like a token. [NewHandler] does the same
// to everything that is logged, and a [Stream] to a text that arrives in pieces.
package redact
