// Package queue has the lanes of one process: named queues, each drained on its
// own, so that background work never blocks a conversation.
//
// # Beside package lane
//
// Package lane keeps two processes from doing the same thing at once: its holds are
// rows in the database, with expiry and fence. This package stands in front of them
// and knows nothing but its own process. Of a hundred jobs that want one thing, it
// lets one ask the database, and the others wait here for nothing but memory. It
// gives what a lease cannot: an order of coming, classes, more than one place in a
// lane, and an end of the wait at the moment when the turn comes. And it gives no
// exclusion: on Lambda one process may serve one request, and then its queues order
// only what that request does side by side.
//
//	lane        for                                      at once
//	main        what names no other lane                 1
//	cron        the automations of one heartbeat         1
//	subagent    the tool calls of a step                 4
//	session:…   the turns of one conversation, as users  1
//
// These are what the product configures with [Options]; to this package all names
// are alike. Names are logged, so they carry ids of people and not their addresses.
//
// # A job runs where it was asked for
//
// [Do] waits for the job's turn, runs it in its caller's goroutine, and hands the
// turn on. There is no worker to stop, no result to lose, and nothing that works on
// behind a handler's back. A panic is the job's error, and the lane goes on. A job
// whose deadline passed has its context ended and keeps its place until it returns:
// to let the next one in beside it would be a lie.
//
// # Whose turn it is
//
// In a lane each class is served in the order of its coming: jobs of class User
// before those of class Background, but when MaxPassed users in a row have passed a
// waiting background job, it is its turn. Background work is slow and never stopped.
// A lane takes so many waiting jobs and no more: what comes over that is refused
// with the time after which it is worth coming again ([FullError]).
//
// A turn is handed from the job that leaves to the one that is next, under the one
// lock, so nobody overtakes and no wake-up can be lost. A caller that goes at that
// very moment hands the turn on unused.
//
// # Chains
//
// A job may enter another lane: a turn in session:web:7 has its tool calls in
// subagent, and waits for them. The context carries the chain. To enter a lane that
// one's own chain is in, also one with room for more, is refused at once. So is a
// wait that would close a circle between chains: A holds a and waits for b, and B,
// which holds b, asks for a. A lane counts as closed when every job in it waits,
// perhaps through others, for the chain that asks. The error prints the way
// ([CircleError]), and it is a mistake in the order in which lanes are entered:
// trying again may well go the same way.
//
// What is done in a job under a context that is not the job's is of no chain, and
// neither are waits of other kinds: for channels, for rows in the database. A circle
// through these ends at a deadline only.
//
// # The end
//
// A wait is watched while it lasts: past WarnAfter it is told who is in the way, and
// what they wait for themselves. A lane that nobody is in is forgotten; what is
// counted, is counted by the names in the options. [Queues.Close] returns when
// nothing runs any more.
package queue
