// Package inbox receives webhooks. A source says who may send, how its requests are signed, and by
// its rules what a delivery does. A delivery that verifies becomes one row, together with the
// outbox row by which the work begins; only then it is answered.
//
// # What a delivery goes through
//
//	received  stored, and answered 202
//	working   its action runs
//	failed    the try failed; it is tried again at next_at
//	done      its action is done, or no rule matched
//	parked    its tries are spent, or no further try can succeed; a person may redeliver it
//
// A row is unique by source and delivery id: the same delivery again changes nothing but a counter.
// Signatures are verified over the raw bytes of the body, before anything is parsed.
package inbox
