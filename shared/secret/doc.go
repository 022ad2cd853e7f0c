// Package secret stores passwords, tokens and keys.
//
// # At rest
//
// A [Sealer] encrypts each value with AES-256-GCM under its own data key. A [Keeper] wraps the data
// key: a [KeyFile] on a laptop, AWS KMS in the cloud (package kms). Both bind the [Place] of the
// value as associated data, so a sealed value can only be opened in its own workspace, table,
// column and row. The [Store] stores named values in this form in the table secrets.
//
// # In use
//
// A configuration refers to a secret by name, {"$secret": "name"}. [Expand] resolves the reference when
// it is used. The result is a [Value], whose text no format, log or JSON shows. Only Reveal returns the
// text.
//
// # On the way out
//
// A [Guard] knows all secrets of a workspace. It returns the redactor (package redact) that removes
// them from texts, JSON and log lines.
package secret
