package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// statements is how many prepared statements a session keeps.
const statements = 300

// session is one connection with the statements it has prepared.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newSession(c *sql.Conn) *session {
	return &session{conn: c, stmts: map[string]*sql.Stmt{}}
}

func (s *session) close() error { return errors.Join(s.forget(), s.conn.Close()) }

// discard closes the connection itself. Its pool does not use it again.
func (s *session) discard() error {
	err := s.forget()
	if bad := s.conn.Raw(func(any) error { return driver.ErrBadConn }); !errors.Is(bad, driver.ErrBadConn) {
		err = errors.Join(err, bad, s.conn.Close())
	}
	return err
}

// forget closes all statements. None of them may be running.
func (s *session) forget() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(s.stmts)
	return errors.Join(errs...)
}

func (s *session) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := s.stmts[text]; ok {
		return stmt, nil
	}
	if len(s.stmts) == statements {
		if err := s.forget(); err != nil {
			return nil, err
		}
	}
	stmt, err := s.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s.stmts[text] = stmt
	return stmt, nil
}

// whole runs a statement that begins or ends a transaction, even when ctx has ended. When a context
// ends, the driver returns its error even if the statement was done; then nobody would know whether
// a transaction is open. The busy timeout bounds its waits. The caller checks ctx before or after
// it.
func (s *session) whole(ctx context.Context, text string) error {
	ctx = context.WithoutCancel(ctx)
	stmt, err := s.prepare(ctx, text) //nolint:sqlclosecheck // the session closes it
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(ctx)
	return err
}

func (s *session) run(ctx context.Context, ws db.Workspace, ops []*db.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, op := range ops {
		args, err := op.Arguments(ws)
		if err != nil {
			return err
		}
		if err := s.op(ctx, op, args); err != nil {
			return &db.OpError{Query: op.Query.Name(), Err: mapError(interrupted(ctx, err))}
		}
	}
	return nil
}

// interrupted returns the error of ctx when the end of ctx interrupted a statement. The driver mostly
// does so itself, but not when both happen at the same time.
func interrupted(ctx context.Context, err error) error {
	if se, ok := errors.AsType[*sqlite.Error](err); ok && se.Code()&0xff == lib.SQLITE_INTERRUPT && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func (s *session) op(ctx context.Context, op *db.Op, args []any) error {
	for i := range args {
		args[i] = bind(args[i])
	}
	text := op.Query.Text(db.SQLite)
	stmt, err := s.prepare(ctx, text) //nolint:sqlclosecheck // the session closes it
	if err != nil {
		return err
	}
	// A SELECT affects its rows; SQLite would return the count of the change before it.
	if !op.WantsRows() && !strings.HasPrefix(text, "SELECT") {
		res, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		return op.Done(n)
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var n int64
	scan := scanner(rows)
	for rows.Next() {
		n++
		if err := op.Row(scan); err != nil {
			return err
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	return op.Done(n)
}
