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
// A [Redactor] takes secrets out of texts and JSON: first the values it knows, in
// the encodings they travel in, then what stands under a telling name, then what
// looks like a token. A [Guard] knows all secrets of a workspace. [NewHandler] does the same to everything that is logged.
package secret
