// Package outbox stores rows for effects outside the database and for work to be done next:
// messages, webhooks, spawns and kicks. A row is written in the transaction of the change that it
// belongs to. If that transaction is rolled back, the row is never sent; if it commits, the row is
// never lost. Any process may send it.
//
// # At least one attempt, at most one effect per key
//
// The handler of the row's topic gets each row at least once, always with the same key. The handler,
// or the receiver, must ensure that a key has one effect. A handler that cannot do so is [Unkeyed].
// If its attempt is cut off, the row is not retried. It becomes uncertain, and a person has to look
// at it.
//
// # What happens to a claim
//
//	the handler …                   the row                        the next claim
//	returns                         is sent                        –
//	fails, panics                   waits with backoff, at least   when it is due
//	                                as long as its error asks for
//	fails its last attempt          has failed                     –
//	fails permanently               has failed, or is dead         –
//	does not know the outcome       is uncertain                   –
//	is killed, frozen, cut off      is sending until its lease     then, or uncertain after the last attempt
//	returns after its lease         belongs to another claim       the old claim cannot mark it ([ErrLost])
//
// A handler that is [Endless] gets a row that was cut off in its last attempt again.
//
// An attempt is counted before the handler gets the row, so that a row that kills its process ends
// as uncertain. A sender handles up to eight rows at once. A row that kills the process therefore
// costs the other rows an attempt, too. A person may resend a row that has failed or is uncertain
// ([Store.Resend]).
//
// # Order
//
// Rows with the same order key are sent one after the other, by seq. The caller that assigns a seq
// first locks a row of another table, so that the row with the lower seq commits first. Only the
// first open row of an order key can be claimed, and the database refuses a second one in flight. A
// row that waits for its next attempt blocks the rows after it. A failed row does not; after a
// resend it comes last. A row whose TTL has passed is not sent, so it waits for no other row.
//
// The row locks of this package come after those of threads: lane → agents → budgets → tasks →
// threads → outbox.
package outbox
