package db

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Workspace is the id of the workspace that a transaction is bound to. Empty means none: then
// only global tables and functions are visible.
type Workspace string

// An Engine is one of the two databases, implemented by db/postgres and db/sqlite.
type Engine interface {
	Dialect() Dialect
	// Do runs ops as one transaction. When readOnly, it may run concurrently with a writer.
	Do(ctx context.Context, ws Workspace, readOnly bool, ops []*Op) error
	// Begin prepares a transaction. Nothing is sent before its first Send.
	Begin(ctx context.Context, ws Workspace) (Transaction, error)
	// Prepare checks that the engine accepts a statement.
	Prepare(ctx context.Context, text string) error
	// Check returns an error when the database is unreachable or damaged, or has a schema that the
	// program can't work with.
	Check(ctx context.Context) error
	// Schema returns the version of the database's schema.
	Schema(ctx context.Context) (int64, error)
	Close() error
}

// A Transaction is an engine's open transaction.
type Transaction interface {
	// Send runs ops in order, in one round trip if the engine has round trips. With commit it
	// commits after them. After an error there is nothing to commit.
	Send(ctx context.Context, ops []*Op, commit bool) error
	// Rollback ends the transaction. It is harmless after a commit.
	Rollback(ctx context.Context) error
}

// DB is a database. It is safe for concurrent use.
type DB struct {
	engine Engine
	stats  counters
	full   atomic.Bool // the last write found no space
}

// New returns a DB on an engine.
func New(engine Engine) *DB { return &DB{engine: engine} }

// Dialect names the SQL of the engine, for messages and tests. Code must not branch on it.
func (d *DB) Dialect() Dialect { return d.engine.Dialect() }

// Close closes all connections.
func (d *DB) Close() error { return d.engine.Close() }

// Check returns an error when the database is unreachable or damaged, or has a schema that the
// program can't work with: [SchemaError], [NewerSchemaError].
func (d *DB) Check(ctx context.Context) error {
	if inTransaction(ctx) {
		return ErrNested
	}
	return d.engine.Check(ctx)
}

// Schema returns the version of the database's schema. It may be newer than the one that the
// program was built for.
func (d *DB) Schema(ctx context.Context) (int64, error) {
	if inTransaction(ctx) {
		return 0, ErrNested
	}
	return d.engine.Schema(ctx)
}

// Prepare checks that the engine accepts q.
func (d *DB) Prepare(ctx context.Context, q Query) error {
	if inTransaction(ctx) {
		return ErrNested
	}
	return d.engine.Prepare(ctx, q.Text(d.engine.Dialect()))
}

// Do runs b as one transaction in one round trip.
func (d *DB) Do(ctx context.Context, ws Workspace, b *Batch) error {
	return d.do(ctx, ws, b, false)
}

// Read is Do for statements that only read. On SQLite they run concurrently with the writer.
func (d *DB) Read(ctx context.Context, ws Workspace, b *Batch) error {
	return d.do(ctx, ws, b, true)
}

func (d *DB) do(ctx context.Context, ws Workspace, b *Batch, readOnly bool) error {
	if inTransaction(ctx) {
		return ErrNested
	}
	d.stats.add(len(b.ops), true)
	err := d.engine.Do(ctx, ws, readOnly, b.ops)
	d.noteSpace(err, !readOnly)
	return wrap(b.ops, err)
}

// Full reports whether the last write failed because the database's disk was full. It returns false
// after the next successful write.
func (d *DB) Full() bool { return d.full.Load() }

// noteSpace records from the outcome of a write whether there is space.
func (d *DB) noteSpace(err error, committed bool) {
	switch {
	case errors.Is(err, ErrFull):
		d.full.Store(true)
	case err == nil && committed:
		d.full.Store(false)
	}
}

// Exec runs one statement as a transaction and returns the number of affected rows.
func (d *DB) Exec(ctx context.Context, ws Workspace, q Query, args ...any) (int64, error) {
	var b Batch
	op := b.Exec(q, args...)
	err := d.Do(ctx, ws, &b)
	return op.Affected(), err
}

// One runs one reading statement and scans its row. It returns [ErrNoRows] when there is none.
func (d *DB) One(ctx context.Context, ws Workspace, dest []any, q Query, args ...any) error {
	var b Batch
	b.One(dest, q, args...)
	return d.Read(ctx, ws, &b)
}

// Each runs one reading statement and calls row for each row.
func (d *DB) Each(ctx context.Context, ws Workspace, row func(Scan) error, q Query, args ...any) error {
	var b Batch
	b.Each(row, q, args...)
	return d.Read(ctx, ws, &b)
}

// Tx runs fn in one transaction, and commits when fn returns nil. The context that fn gets marks
// the transaction: using the DB itself under it returns [ErrNested]. Never keep a transaction open
// during a model call or an HTTP call.
func (d *DB) Tx(ctx context.Context, ws Workspace, fn func(context.Context, *Tx) error) (err error) {
	if inTransaction(ctx) {
		return ErrNested
	}
	t, err := d.engine.Begin(ctx, ws)
	if err != nil {
		return err
	}
	tx := &Tx{db: d, t: t}
	defer func() {
		if tx.done {
			return
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if rerr := t.Rollback(undo); rerr != nil && err != nil {
			err = errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
	}()
	if err := fn(context.WithValue(ctx, transactionKey{}, true), tx); err != nil {
		return err
	}
	return tx.send(ctx, true)
}

const rollbackTimeout = 2 * time.Second

type transactionKey struct{}

func inTransaction(ctx context.Context) bool { return ctx.Value(transactionKey{}) != nil }

// Writer is an open transaction: a [Tx], or one that also proves a hold of a lane.
type Writer interface {
	Exec(ctx context.Context, q Query, args ...any) (int64, error)
	One(ctx context.Context, dest []any, q Query, args ...any) error
	Each(ctx context.Context, row func(Scan) error, q Query, args ...any) error
	Later() *Batch
	Flush(ctx context.Context) error
}

// Tx is an open transaction. It is not safe for concurrent use. An error of any method ends it:
// nothing is committed, and all later calls, COMMIT included, return that error again. Use Each to
// read a row that may be absent.
type Tx struct {
	db      *DB
	t       Transaction
	pending Batch
	sent    bool
	done    bool
	failed  error
}

// Later returns the batch of statements that are sent with the next statement whose answer is
// needed, or with COMMIT. Use it only for statements whose outcome nobody decides on, or that raise
// an error in SQL. A failing statement rolls the transaction back.
func (tx *Tx) Later() *Batch { return &tx.pending }

// Flush sends the statements in [Tx.Later].
func (tx *Tx) Flush(ctx context.Context) error { return tx.send(ctx, false) }

// Exec runs a statement and returns the number of affected rows.
func (tx *Tx) Exec(ctx context.Context, q Query, args ...any) (int64, error) {
	op := tx.pending.Exec(q, args...)
	err := tx.send(ctx, false)
	return op.Affected(), err
}

// One runs a statement and scans its row. It returns [ErrNoRows] when there is none.
func (tx *Tx) One(ctx context.Context, dest []any, q Query, args ...any) error {
	tx.pending.One(dest, q, args...)
	return tx.send(ctx, false)
}

// Each runs a statement and calls row for each row.
func (tx *Tx) Each(ctx context.Context, row func(Scan) error, q Query, args ...any) error {
	tx.pending.Each(row, q, args...)
	return tx.send(ctx, false)
}

func (tx *Tx) send(ctx context.Context, commit bool) error {
	ops := tx.pending.ops
	tx.pending.ops = nil
	if tx.failed != nil {
		return tx.failed
	}
	if len(ops) == 0 && !(commit && tx.sent) {
		return nil
	}
	tx.db.stats.add(len(ops), !tx.sent)
	tx.sent = true
	err := tx.t.Send(ctx, ops, commit)
	tx.db.noteSpace(err, commit)
	if err != nil {
		tx.failed = wrap(ops, err)
		return tx.failed
	}
	tx.done = commit
	return nil
}

// An OpError names the statement that failed.
type OpError struct {
	Query string
	Err   error
}

func (e *OpError) Error() string { return e.Query + ": " + e.Err.Error() }
func (e *OpError) Unwrap() error { return e.Err }

// wrap adds the statement's name when only one statement can have failed.
func wrap(ops []*Op, err error) error {
	if err == nil || len(ops) != 1 {
		return err
	}
	if _, named := errors.AsType[*OpError](err); named {
		return err
	}
	return &OpError{Query: ops[0].Query.Name(), Err: err}
}

// Transactions returns how many transactions a DB has begun. On Postgres each has one statement more
// than [Stats] counts, by which it enters the workspace.
func (d *DB) Transactions() int64 { return d.stats.transactions.Load() }

// Stats counts what a DB has sent.
type Stats struct {
	// Statements does not count the statements that enter the workspace, begin or commit.
	Statements int64
	// RoundTrips counts how often something was sent and its answer awaited.
	RoundTrips int64
}

// Sub returns the difference from an earlier reading.
func (s Stats) Sub(earlier Stats) Stats {
	return Stats{s.Statements - earlier.Statements, s.RoundTrips - earlier.RoundTrips}
}

// Stats reads the counters.
func (d *DB) Stats() Stats {
	return Stats{d.stats.statements.Load(), d.stats.roundTrips.Load()}
}

type counters struct{ statements, roundTrips, transactions atomic.Int64 }

func (c *counters) add(statements int, begins bool) {
	if begins {
		c.transactions.Add(1)
	}
	c.statements.Add(int64(statements))
	c.roundTrips.Add(1)
}

// Skew shifts the database's clock for one handle, so that tests can let time pass without waiting.
// A nil Skew shifts nothing.
type Skew struct{ offset atomic.Int64 }

// Advance moves the clock ahead by d.
func (s *Skew) Advance(d time.Duration) { s.offset.Add(int64(d)) }

// Offset returns how far the clock is ahead.
func (s *Skew) Offset() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(s.offset.Load())
}
