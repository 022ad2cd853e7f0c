// Package queue provides the queues of one process: named queues, each drained independently, so
// that background work never blocks a conversation.
//
// # Compared with package lane
//
// Package lane keeps two processes from doing the same thing at once. Its holds are rows in the
// database, with expiry and fence. This package runs before them and knows only its own process.
// When a hundred jobs want one thing, one of them asks the database, and the others wait here at no
// other cost than memory. It provides what a lease cannot: jobs in order of arrival, classes, more
// than one job at once in a queue, and a wait that ends at the moment when the turn comes. It does
// not provide mutual exclusion: on Lambda a process may serve one request only, and its queues then
// order only the concurrent work of that request.
//
//	queue       for                                      at once
//	main        jobs that name no other queue            1
//	cron        the automations of one heartbeat         1
//	subagent    the tool calls of a step                 4
//	session:…   the turns of one conversation, as users  1
//
// The product configures these queues with [Options]; this package treats all names alike. Names are
// logged, so they contain ids of people and not their addresses.
//
// # A job runs in its caller's goroutine
//
// [Do] waits for the job's turn, runs the job in its caller's goroutine, and passes the turn on.
// There is no worker to stop, no result to lose, and no work that continues after a handler has
// returned. A panic becomes the job's error, and the queue continues. When a job's deadline passes,
// its context ends, but the job keeps its place until it returns. Otherwise more jobs would run at
// once than the queue allows.
//
// # Order
//
// Each class in a queue is served in order of arrival. Jobs of class User come before jobs of class
// Background. But when MaxPassed users in a row have passed a waiting background job, that job is
// next. Background work is slow, but never stopped. A queue limits how many jobs wait. It refuses
// further jobs with a [FullError], which says when to try again.
//
// A job that leaves passes its turn to the next one under the one lock. So no job overtakes
// another, and no wake-up is lost. A caller that leaves at that moment passes the turn on unused.
//
// # Chains
//
// A job may enter another queue: a turn in session:web:7 runs its tool calls in subagent and waits
// for them. The context carries the chain. A job that enters a queue of its own chain is refused at
// once, even when the queue has room. So is a wait that would close a cycle between chains: A holds
// a and waits for b, and B, which holds b, asks for a. A queue counts as blocked when every job in
// it waits for the chain that asks, directly or through others. The error contains the path
// ([CycleError]). It is a mistake in the order in which queues are entered; a retry may fail the
// same way.
//
// Work that a job does under a context that is not the job's belongs to no chain. Neither do other
// kinds of waits: for channels, for rows in the database. A cycle through these ends only at a
// deadline.
//
// # Monitoring and end
//
// A wait longer than WarnAfter is reported while it lasts, with the jobs that block it and what
// those wait for. A queue without jobs is forgotten; counts are kept by the names in the options.
// [Queues.Close] returns when nothing runs any more.
package queue
