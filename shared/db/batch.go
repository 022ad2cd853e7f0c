package db

// Scan reads the columns of one row into dest. dest are pointers to strings and named strings,
// integers, floats, bools, time.Time, []byte, json.RawMessage, and pointers to those for columns
// that may be null.
type Scan func(dest ...any) error

// An Op is one statement that an engine runs, with its outcome.
type Op struct {
	Query Query
	Args  []any // without the workspace

	rows     func(Scan) error // nil: rows are ignored
	least    int64            // the minimum number of rows
	affected int64
}

// Affected returns the number of rows that the statement changed or returned. It is known after the
// statement was sent.
func (op *Op) Affected() int64 { return op.affected }

// Row passes a row to the reader of the rows. Engines call it for each row.
func (op *Op) Row(scan Scan) error {
	if op.rows == nil {
		return nil
	}
	return op.rows(scan.withOptional())
}

// WantsRows reports whether the caller reads the rows.
func (op *Op) WantsRows() bool { return op.rows != nil }

// Done records the end of the statement. Engines call it with the number of rows that the statement
// affected or returned.
func (op *Op) Done(affected int64) error {
	op.affected = affected
	if affected < op.least {
		return ErrNoRows
	}
	return nil
}

// MustFind makes a statement that affects or returns no row fail with [ErrNoRows], which rolls the
// transaction back. On Postgres that is too late for a statement that is sent together with the
// commit, in [DB.Do] or as the last of [Tx.Later]: the statements sent with it are committed by
// then. Such a statement must raise an error in SQL.
func (op *Op) MustFind() *Op { return op.MustFindAll(1) }

// MustFindAll is MustFind for a statement that must affect or return at least n rows.
func (op *Op) MustFindAll(n int) *Op {
	op.least = int64(n)
	return op
}

// A Batch is a list of statements that are sent together. [DB.Do] and [DB.Read] send it as one
// transaction. The zero Batch is empty and ready for use.
type Batch struct {
	ops []*Op
}

// Len returns the number of statements in the batch.
func (b *Batch) Len() int { return len(b.ops) }

// Exec adds a statement whose rows are ignored.
func (b *Batch) Exec(q Query, args ...any) *Op {
	return b.add(&Op{Query: q, Args: args})
}

// One adds a statement that must return a row, which is scanned into dest. Without a row the batch
// fails with [ErrNoRows] and the transaction is rolled back.
//
// On Postgres the later statements of the same batch have run by then. They are rolled back too,
// except that a batch sent by [DB.Do] is already committed. A statement that guards others in one
// batch must therefore raise an error in SQL, as the lane functions do.
func (b *Batch) One(dest []any, q Query, args ...any) *Op {
	return b.Each(func(scan Scan) error { return scan(dest...) }, q, args...).MustFind()
}

// Each adds a statement and calls row for each row that it returns.
func (b *Batch) Each(row func(Scan) error, q Query, args ...any) *Op {
	return b.add(&Op{Query: q, Args: args, rows: row})
}

func (b *Batch) add(op *Op) *Op {
	b.ops = append(b.ops, op)
	return op
}
