// Package lane provides locks for exclusive work in a workspace. A lock outlives processes, and no
// process can cheat it. It consists of a row per lane, a lease on the database's clock, a token
// that proves ownership, and a fence (fencing token) that only grows.
//
// # Two rules
//
// Lock the head row, then decide in a new statement.
// Prove the hold and write in one transaction.
//
// [Store.Acquire] acquires a [Hold] in one round trip. A refusal is a pure read: it locks and
// writes nothing. State that a lane protects is written inside [Store.InHold]. Its first statement,
// in the round trip of BEGIN, updates the lane's row by token and so locks it. A successor's
// acquire therefore waits until the writing transaction has ended. When no row matches, the hold is
// over, and the transaction is rolled back with [ErrLost]. Stores that write protected state take a
// [Tx], which only InHold makes. Code that forgets the proof does not compile.
//
// # What happens to a hold
//
//	the holder …                    the hold                      the next caller
//	returns, fails, panics          is released                   gets it at once
//	is killed                       ends at its expiry            gets it then, not before
//	is frozen and thawed in time    goes on                       is refused meanwhile
//	is frozen past its expiry       is over, taken or not         gets it; the frozen one cannot write
//	loses the answer to acquire     is confirmed by the retry     is refused (same token: same hold, same fence)
//	loses the answer to a write     may or may not have written   –  (db.ErrUncertain; read back by key)
//	loses the database              cannot be renewed             gets it at expiry
//	is forced out by an operator    is over from then on          gets it at once
//
// Nothing renews a hold in the background. A background goroutine would be frozen together with its
// sandbox, and it would keep the hold of a hung holder alive.
//
// # Why rows and not advisory locks
//
// An advisory lock belongs to a database session. Through a transaction pooler the session changes
// hands: through PgBouncer two clients "held" the same advisory lock in every one of 200 tries. A
// frozen function keeps its session, and so the lock, for as long as the connection seems alive.
// And an advisory lock has no fence.
//
// # Order of row locks
//
// lane → agents → budgets → tasks → threads. Several lanes are acquired in sorted order, all or
// none.
package lane
