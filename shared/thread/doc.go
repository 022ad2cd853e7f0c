// Package thread keeps conversations, each with one outside person over one
// channel, and has one execution at a time speak in them.
//
// # The lock
//
// A thread's lock is a stack of ids, the top of which has the thread. Whoever asks,
// sends, lets go or sweeps locks the thread's row first and decides in a new
// statement ([Store.Lock], in one round trip):
//
//	the thread is …                                          the asker …
//	free, or had by one that has ended                       takes it
//	its own                                                  refreshes it
//	another's, under whom it may speak                       is pushed on the stack, and popped when it ends
//	another's, idle for ten minutes and not parked           takes it, the stack is cleared
//	parked by another, and the thread is handed over         is pushed on the stack
//	parked by another, and the thread's policy supersedes    takes it
//	another's                                                is refused ([HeldError])
//
// An execution may speak under another when every hop between them was begun with
// the parent waiting, and all of them up to that one are waiting still.
//
// # What is sent
//
// [Store.Send] takes the thread and puts the message into the outbox, where what
// goes has numbers in the order it was sent and leaves one after the other. A sender
// that may not have the thread has its message queued. Queued messages have numbers
// far behind, so that the holder's own pass them; when the thread is let go, the
// first of them has it for its own send, like an execution would, and lets go of it
// in the transaction that marks it sent. Whoever takes the thread has what it queued
// go first. What has failed, or is uncertain, is queued anew when a person has it sent
// again ([Store.Resend]); what has expired is not: its words are of another time.
//
// # Order of row locks
//
// executions (children before parents) → threads (by id) → outbox. The person's answer
// and the sweep wake executions behind the threads, and wait for none: who is locked is
// passed over and found by the next sweep.
package thread
