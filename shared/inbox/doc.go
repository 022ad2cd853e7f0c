// Package inbox receives webhooks. A source describes a sender: how its requests are signed, and
// the rules that say what a delivery does. A verified delivery is stored as one row, together with
// an outbox row that starts the work. The response is sent only after that.
//
// # What a delivery goes through
//
//	received  stored, and answered with 202
//	working   its action runs
//	failed    the attempt failed; it is retried at next_at
//	done      its action is done, or no rule matched
//	parked    no attempt is left, or a retry cannot succeed; a person may redeliver it
//
// A row is unique by source and delivery id. If the same delivery arrives again, only a counter
// changes. Signatures are verified over the raw bytes of the body, before anything is parsed.
package inbox
