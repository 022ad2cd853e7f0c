// Package db is the interface between Lanekeeper's domain packages and its two databases: Postgres
// (db/postgres) and SQLite (db/sqlite).
//
// # Queries
//
// SQL is written in *.sql files next to the Go code that uses it. The code gets it as fields: a
// store declares
//
//	type queries struct{ Get, List db.Query }
//
// and fills it with [Load] in its New. A query without a field, or a field without a query, is an
// error. Text for both engines is in name.sql. A query that must differ is in name.postgres.sql and
// name.sqlite.sql; the first line of these files says why.
//
// # Workspaces
//
// Every transaction belongs to a [Workspace]. Package db binds it as $1 of every query. A query
// that is not about one workspace has a line "-- global: why" and no such parameter. On Postgres
// lk_enter(workspace) additionally takes the application role and sets app.workspace_id, so that
// row-level security enforces the same again. The trace of the context is passed along, for the
// events that the transaction makes.
//
// # Round trips
//
// Time is round trips times distance, plus log flushes. On Postgres a [Batch] is one transaction in
// one round trip, settings included. Inside a transaction, [Tx.Later] queues a statement. It is
// sent with the next statement whose answer is needed, or with COMMIT.
//
// # Order of row locks
//
// lane, agents, budgets, tasks, threads: every transaction locks in this order.
package db
