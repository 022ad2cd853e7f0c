// Package thread stores conversations. Each is with one person over one channel, and one execution
// at a time may speak in it.
//
// # The lock
//
// A thread's lock is a stack of ids. The top of the stack holds the thread. Every call that asks,
// sends, releases or sweeps locks the thread's row first and decides in a new statement
// ([Store.Lock], in one round trip):
//
//	the thread is …                                          the asker …
//	free, or held by one that has ended                      acquires it
//	held by the asker                                        refreshes it
//	held by another, under whom the asker may speak          is pushed on the stack, and popped when it ends
//	held by another, idle for ten minutes and not parked     acquires it, the stack is cleared
//	parked by another, and the policy is hand_over           is pushed on the stack
//	parked by another, and the policy is supersede           acquires it
//	held by another                                          is refused ([HeldError])
//
// An execution may speak under another when every parent between them began its child to wait for
// it, and all of these, up to that other one, are still waiting.
//
// # What is sent
//
// [Store.Send] acquires the thread and adds the message to the outbox. There a thread's messages
// are numbered in the order in which they were sent, and leave one after the other. When the sender
// may not have the thread, its message is queued. Queued messages get much higher numbers, so the
// holder's own messages pass them. When the thread is released, the first queued message holds it
// for its own send, as an execution would; the transaction that marks the message sent releases the
// thread. When an execution acquires the thread, the messages that it had queued are sent first. A
// message that has failed, or whose outcome is unknown, is queued again when a person asks for it
// ([Store.Resend]). An expired message is not, because it is out of date.
//
// # Order of row locks
//
// executions (children before parents) → threads (by id) → outbox. The person's answer and the
// sweep wake executions after they have locked threads. They do not wait for a locked execution:
// they skip it, and the next sweep finds it.
package thread
