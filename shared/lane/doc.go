// Package lane gives exclusive work in one workspace a lock that outlives
// processes and cannot be cheated by one: a row per lane, a lease on the
// database's clock, a token that proves ownership, and a fence that only grows.
//
// # Two sentences
//
// Lock the head row, then decide in a new statement. Prove the hold, then write,
// in one transaction.
//
// A [Hold] is acquired with [Store.Acquire] in one round trip; a refusal is a
// pure read that locks and writes nothing. What a lane protects is written inside
// [Store.InHold]: its first statement, in the round trip of BEGIN, updates the
// lane's row by token and thereby locks it, so that a successor's acquire waits
// until the writing transaction has ended. No row means the hold is over, and the
// transaction is undone with [ErrLost]. Stores that write protected state take a
// [Tx], which only InHold makes: forgetting the proof does not compile.
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
// Nothing renews a hold behind the work's back. A goroutine would be frozen with
// its sandbox, and it would keep a hung holder alive.
//
// # Why rows and not advisory locks
//
// An advisory lock belongs to a database session. Behind a transaction pooler the
// session is not yours: through PgBouncer two clients "held" the same advisory
// lock in every one of 200 tries. A frozen function keeps its session, and with
// it the lock, for as long as the connection seems alive. And an advisory lock
// has no fence.
//
// # Order of row locks
//
// lane → agents → budgets → tasks → threads. Several lanes are taken in sorted
// order, all or nothing.
package lane
