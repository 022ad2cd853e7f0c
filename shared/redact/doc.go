// Package redact removes secrets from texts, JSON and log lines.
//
// A [Redactor] first removes the values that it knows, in their usual encodings. Then it removes
// values whose name belongs to a secret, and texts in the form of a token. [NewHandler] does the
// same for everything that is logged, and a [Stream] removes known values from a text that arrives
// in pieces.
package redact
