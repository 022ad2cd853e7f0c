package db

// Scan reads the columns of one row into dest: pointers to strings and named
// strings, integers, floats, bools, time.Time, []byte, json.RawMessage, and
// pointers to those for columns that may be null.
type Scan func(dest ...any) error

// An Op is one statement on its way to an engine and its outcome.
type Op struct {
	Query Query
	Args  []any // without the workspace

	rows     func(Scan) error // nil: rows are ignored
	least    int64            // rows
	affected int64
}

// Affected is the number of rows the statement changed or returned, known once
// it has been sent.
func (op *Op) Affected() int64 { return op.affected }

// Row is called by an engine for each row.
func (op *Op) Row(scan Scan) error {
	if op.rows == nil {
		return nil
	}
	return op.rows(scan)
}

// WantsRows reports whether somebody reads the rows.
func (op *Op) WantsRows() bool { return op.rows != nil }

// Done is called by an engine when the statement ended, with the number of rows
// it affected or returned.
func (op *Op) Done(affected int64) error {
	op.affected = affected
	if affected < op.least {
		return ErrNoRows
	}
	return nil
}

// MustFind makes a statement that affects or yields no row fail with
// [ErrNoRows], which undoes the transaction. On Postgres that is too late for a
// statement that travels with the commit, in [DB.Do] or as the last of
// [Tx.Later]: what travelled with it has been committed by then. Such a statement
// must raise in SQL.
func (op *Op) MustFind() *Op { return op.MustFindAll(1) }

// MustFindAll is MustFind of a statement that affects or yields n rows at least.
func (op *Op) MustFindAll(n int) *Op {
	op.least = int64(n)
	return op
}

// A Batch is a list of statements that go to the database together, as one
// transaction when [DB.Do] or [DB.Read] sends it. The zero Batch is empty and
// ready for use.
type Batch struct {
	ops []*Op
}

// Len is the number of statements in the batch.
func (b *Batch) Len() int { return len(b.ops) }

// Exec adds a statement whose rows, if it has any, are not read.
func (b *Batch) Exec(q Query, args ...any) *Op {
	return b.add(&Op{Query: q, Args: args})
}

// One adds a statement that must yield a row, scanned into dest; none is
// [ErrNoRows] and undoes the transaction.
//
// On Postgres the statements behind it in the same batch have run by then; they
// are undone too, except that a batch sent by [DB.Do] has committed. A statement
// that guards others in one batch must therefore raise in SQL, as the lane
// functions do.
func (b *Batch) One(dest []any, q Query, args ...any) *Op {
	return b.Each(func(scan Scan) error { return scan(dest...) }, q, args...).MustFind()
}

// Each adds a statement and calls row for each row it yields.
func (b *Batch) Each(row func(Scan) error, q Query, args ...any) *Op {
	return b.add(&Op{Query: q, Args: args, rows: row})
}

func (b *Batch) add(op *Op) *Op {
	b.ops = append(b.ops, op)
	return op
}
