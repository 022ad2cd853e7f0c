// Package queue has the lanes of one process: named queues in front of the holds in
// the database, each drained on its own, so that background work never blocks a
// conversation, and a busy process asks the database once, not a hundred times.
//
// A job runs in the goroutine of whoever brings it: Do waits for its turn, runs it,
// and hands the turn on. So there is no worker to stop, no result to lose, and
// nothing that runs on behind a handler's back; a panic is its caller's error.
//
// Within a lane jobs take their turn in the order in which they came, at most
// MaxConcurrent of them at once. Those of class User go before those of class
// Background, but for one in MaxPassed+1 while both wait, so that background work
// is slow and not stopped. A lane takes so many waiting jobs and no more: what
// comes over it is refused with the time after which it is worth coming again.
//
// A job may enter another lane, and waits there as one of the chain that it is in:
// first session:web:anna, then the global subagent. To enter a lane that one's own
// chain is in already, or one whose every holder waits, perhaps through others, for
// what one's own chain holds, would be to wait for oneself. Both are refused at
// once, with an error that prints the chain. As each waiter is checked when it
// begins to wait, and a circle is closed by the last to wait, none can come about.
//
// What this package knows ends with the process. That two processes don't work on
// the same thing is the business of package lane.
package queue
