// Package secret keeps what nobody may see: passwords, tokens and keys.
//
// # At rest
//
// A [Sealer] encrypts each value with AES-256-GCM under a data key of its own, and
// a [Keeper] wraps that key: a [KeyFile] on a laptop, AWS KMS in the cloud (package
// kms). Both take the [Place] of the value as associated data, so that a sealed
// value opens in its own workspace, table, column and row, and nowhere else. The
// [Store] keeps named values so, in the table secrets.
//
// # In use
//
// A configuration refers to a secret by name, {"$secret": "name"}; [Expand] and
// [ExpandHeaders] resolve it when it is used. What comes out is a [Value], whose
// text no format, log or JSON shows: only Reveal gives it.
//
// # On the way out
//
// A [Guard] knows all secrets of a workspace. It gives the redactor (package redact) that
// takes them out of texts, JSON and log lines.
package secret
