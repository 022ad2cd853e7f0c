// Package db is the seam between Lanekeeper's domain packages and the two
// databases it runs on: Postgres (db/postgres) and SQLite (db/sqlite).
//
// # Queries
//
// SQL stands beside the Go that uses it, in *.sql files, and reaches the code
// as fields: a store declares
//
//	type queries struct{ Get, List db.Query }
//
// and fills it with [Load] in its New. A name without a field, or a field
// without a query, is an error. Text that suits both engines stands in
// name.sql; only where they differ does a query stand in name.postgres.sql and
// name.sqlite.sql, whose first line says why.
//
// # Workspaces
//
// Every transaction belongs to a [Workspace]. The seam binds it as $1 of every
// query; a query that is not about one workspace says so with a line
// "-- global: why" and has no such parameter. On Postgres lk_enter(workspace)
// additionally takes the application role and sets app.workspace_id, so that
// row-level security enforces the same again. The context's trace goes along, for the
// events that the transaction makes.
//
// # Round trips
//
// Time is round trips times distance, plus log flushes. A [Batch] is one
// transaction in one round trip on Postgres, settings included. Inside a
// transaction, [Tx.Later] queues a statement that travels with the next one
// that needs an answer, or with COMMIT.
//
// # Order of row locks
//
// lane, agents, budgets, tasks, threads: every transaction locks in this order.
package db
