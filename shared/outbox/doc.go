// Package outbox keeps what leaves the database, or is to be done next: messages,
// webhooks, spawns and kicks. A row is written in the transaction of the change
// it belongs to, so that what is undone is never sent and what is done is never
// forgotten; who comes next sends it.
//
// # At least one try, at most one effect per key
//
// A row is handed to the handler of its topic at least once, always under the
// same key: the handler, or who receives it, sees to it that a key has one
// effect. Where no key can do that the handler says so ([Unkeyed]); then a try
// that was cut off is not repeated but left as uncertain, for a person to look at.
//
// # What happens to a claim
//
//	the handler …                   the row                        the next claim
//	returns                         is sent                        –
//	fails, panics                   waits, longer each time, and   when it is due
//	                                as long as its error asks for
//	fails its last try              has failed                     –
//	fails for good                  has failed, or is dead         –
//	can't say what became of it     is uncertain                   –
//	is killed, frozen, cut off      is being sent until its lease  then, or uncertain after its last try
//	comes back after its lease      is another's                   the old one can't mark it ([ErrLost])
//
// An attempt is counted before the handler gets the row, so that a row that kills
// its process ends as uncertain. A sender has up to eight rows in hand: a row that
// kills costs those an attempt, too. What has failed, or is uncertain, a person may have sent
// again ([Store.Resend]).
//
// # Order
//
// Rows with an order key are sent one after the other, by seq. Who gives that out
// locks a row of another table first, so that who has the lower one has committed
// first. Only the first open one can be claimed, and the database refuses a second in
// flight. One that waits for its next try holds up those behind it; one that has
// failed does not, and goes behind them when it is sent again.
//
// The row locks of this package come after those of threads: lane → agents →
// budgets → tasks → threads → outbox.
package outbox
