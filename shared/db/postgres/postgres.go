// Package postgres is the engine for Postgres. It uses the protocol layer of pgx. It prepares statements
// only on a connection that leads to its server, so that a transaction pooler does no harm. A batch is
// pipelined in one round trip. Every transaction begins with lk_enter, which sets the application role,
// the workspace and the time limits for that transaction only.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Config configures the engine.
type Config struct {
	// URL is a postgres:// URL or a keyword/value string. The certificates of hosts other than
	// loopback are fully verified (sslmode=verify-full).
	URL string
	// MaxConns is the size of the pool; 2 when zero.
	MaxConns int32
	// Schema is the schema version that the program was built for. An older schema is refused, and
	// so is a newer one unless it allows this build. Zero accepts any schema.
	Schema int64
	// Skew shifts the database's clock for this handle (tests).
	Skew *db.Skew
	// Silence is the longest wait for the answer to one statement, even when the caller would wait
	// longer; 25 s when zero.
	Silence time.Duration
	// Idle is how long a connection may be unused before it is checked; 1 s when zero.
	Idle time.Duration
}

const (
	connectTimeout = 5 * time.Second
	idle           = time.Second
	// silence is 5 s more than the statement_timeout of lk_enter, after which a server answers.
	silence = 25 * time.Second
)

type engine struct {
	config  *pgconn.Config
	pool    *puddle.Pool[*conn]
	skew    *db.Skew
	silence time.Duration
	idle    time.Duration
	need    int64
	pooled  atomic.Bool // a server forgot a prepared statement: something unseen stands before it
}

// Open returns an engine. It connects on first use, so that a process can start while the database
// is away.
func Open(cfg Config) (*db.DB, error) {
	dsn, err := VerifiedURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	pc, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The message of pgx may quote the string, including the password.
		return nil, errors.New("DATABASE_URL is not a Postgres URL")
	}
	Trust(pc)
	// Parameters of other programs' pools and statement caches are not the server's.
	maps.DeleteFunc(pc.RuntimeParams, func(name, _ string) bool {
		return strings.HasPrefix(name, "pool_") || name == "default_query_exec_mode" || strings.HasSuffix(name, "_cache_capacity")
	})
	pc.ConnectTimeout = connectTimeout
	// Keepalives detect a dead peer while nothing is being sent; the limit on unacknowledged data
	// detects it otherwise.
	pc.DialFunc = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second, Control: limitUnacknowledged}).DialContext
	e := &engine{config: pc, skew: cfg.Skew, silence: cmp.Or(cfg.Silence, silence), idle: cmp.Or(cfg.Idle, idle), need: cfg.Schema}
	e.pool, err = puddle.NewPool(&puddle.Config[*conn]{
		Constructor: e.connect,
		Destructor:  disconnect,
		MaxSize:     cmp.Or(cfg.MaxConns, 2),
	})
	if err != nil {
		return nil, fmt.Errorf("open Postgres pool: %w", err)
	}
	return db.New(e), nil
}

// VerifiedURL returns the connection string with sslmode=verify-full, unless all its hosts are
// loopback or sockets. It refuses a string that disables TLS for another host.
func VerifiedURL(dsn string) (string, error) {
	pc, err := pgconn.ParseConfig(dsn)
	if err != nil || strings.TrimSpace(dsn) == "" {
		return "", errors.New("DATABASE_URL is not a Postgres URL (postgres://user:password@host:5432/name)")
	}
	remote, encrypted, _ := hosts(pc)
	if remote == "" {
		return dsn, nil
	}
	if !encrypted {
		return "", fmt.Errorf("DATABASE_URL switches TLS off for host %s: leave sslmode out, or set it to verify-full", remote)
	}
	// The string is a URL with or without parameters, or a list of key=value. Try all three and let
	// the parser decide.
	for _, glue := range []string{"?", "&", " "} {
		strict := dsn + glue + "sslmode=verify-full"
		sc, err := pgconn.ParseConfig(strict)
		if err != nil || sc.Host != pc.Host || sc.Database != pc.Database || sc.Password != pc.Password {
			continue
		}
		if _, _, verified := hosts(sc); verified {
			return strict, nil
		}
	}
	return "", fmt.Errorf("DATABASE_URL: the server %s can't be verified with these TLS parameters: leave them out, or set "+
		"sslmode=verify-full", remote)
}

// hosts returns the first remote host, if any, whether TLS may be used for a remote host, and
// whether all remote hosts are fully verified.
func hosts(pc *pgconn.Config) (remote string, encrypted, verified bool) {
	verified = true
	for _, h := range append([]*pgconn.FallbackConfig{{Host: pc.Host, TLSConfig: pc.TLSConfig}}, pc.Fallbacks...) {
		if isLocal(h.Host) {
			continue
		}
		if remote == "" {
			remote = h.Host
		}
		encrypted = encrypted || h.TLSConfig != nil
		verified = verified && h.TLSConfig != nil && !h.TLSConfig.InsecureSkipVerify
	}
	return remote, encrypted, verified
}

func isLocal(host string) bool {
	if host == "localhost" || strings.HasPrefix(host, "/") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkSchema refuses a schema that is too old and a role that has too many rights. It also reports
// whether the connection leads to its server: a pooler gives it a number of its own, and not that of the
// server's process.
func checkSchema(ctx context.Context, c *pgconn.PgConn, need int64) (direct bool, err error) {
	if need == 0 {
		return false, nil
	}
	var have, pid int64
	var safe bool
	err = one(ctx, c, "SELECT version, safe, pg_backend_pid() FROM lk_schema()", &have, &safe, &pid)
	pe, told := errors.AsType[*pgconn.PgError](err)
	switch {
	case told && pe.Code == "42883":
		return false, db.CheckSchema(need, 0, 0)
	case err != nil:
		return false, fmt.Errorf("read schema version: %w", err)
	case have < need:
		return false, db.CheckSchema(need, have, 0)
	case !safe:
		return false, db.ErrUnsafeRole
	}
	return pid == int64(c.PID()), nil // whether a newer schema allows this build is asked by every transaction
}

func (e *engine) Dialect() db.Dialect { return db.Postgres }

func (e *engine) Close() error { e.pool.Close(); return nil }

// Check enters a transaction, which checks the schema.
func (e *engine) Check(ctx context.Context) error { return e.Do(ctx, "", true, nil) }

func (e *engine) Schema(ctx context.Context) (version int64, err error) {
	c, _, err := e.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer e.release(c)
	err = one(ctx, c.Value().PgConn, "SELECT version FROM lk_schema()", &version)
	return version, mapError(err, c.Value().IsClosed(), false)
}

// one runs a statement of this package outside a transaction, and scans its row.
func one(ctx context.Context, c *pgconn.PgConn, text string, dest ...any) error {
	r := c.ExecParams(ctx, text, nil, nil, nil, nil).Read()
	switch {
	case r.Err != nil:
		return r.Err
	case len(r.Rows) == 0:
		return db.ErrNoRows
	}
	return scan(r.FieldDescriptions, r.Rows[0], dest)
}

func (e *engine) Prepare(ctx context.Context, text string) error {
	c, _, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer e.release(c)
	_, err = c.Value().Prepare(ctx, "", text, nil)
	return mapError(err, c.Value().IsClosed(), false)
}

// again reports whether a failed pipeline had nothing to commit and ran on a connection that was
// used before, so that a new connection may retry it.
func (e *engine) again(ctx context.Context, err error, reused bool) bool {
	_, ok := errors.AsType[*deadError](err)
	return ok && reused && ctx.Err() == nil
}

// Do sends the statements as one pipeline, which Postgres runs as one transaction: no BEGIN, no
// COMMIT, one round trip.
func (e *engine) Do(ctx context.Context, ws db.Workspace, readOnly bool, ops []*db.Op) error {
	for {
		c, reused, err := e.acquire(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer e.release(c) // also when the reader of the rows panics
			b := c.Value().begin()
			e.enter(ctx, b, ws)
			return e.pipeline(ctx, c.Value(), b, ws, ops, ending{changes: !readOnly})
		}()
		if !e.again(ctx, err, reused) {
			return err
		}
	}
}

// enter queues the statement that begins every transaction. It ends one whose schema does not allow
// this build, because another program may have migrated it since the connection was made: nothing
// is written into such a schema.
func (e *engine) enter(ctx context.Context, b *batch, ws db.Workspace) {
	id, _ := trace.From(ctx)
	if e.need == 0 {
		b.queue(entrance, db.Null(string(ws)), e.skew.Offset().Microseconds(), string(id))
		return
	}
	b.queue(entrance+", lk_admit($4)", db.Null(string(ws)), e.skew.Offset().Microseconds(), string(id), e.need)
}

// entrance opens a transaction. It also sets how values are written as text: a role, a database or a URL
// may have set that otherwise.
const entrance = `SELECT lk_enter($1, $2), set_config('app.trace_id', $3, true),
  set_config('datestyle', 'ISO, YMD', true), set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)`

func (e *engine) Begin(_ context.Context, ws db.Workspace) (db.Transaction, error) {
	return &transaction{engine: e, ws: ws}, nil
}

// transaction is an explicit transaction. BEGIN and lk_enter are sent with its first statements,
// COMMIT with its last.
type transaction struct {
	engine *engine
	ws     db.Workspace
	conn   *pooled
}

func (t *transaction) Send(ctx context.Context, ops []*db.Op, commit bool) error {
	if t.conn == nil {
		if commit {
			return t.engine.Do(ctx, t.ws, false, ops) // everything at once
		}
		return t.begin(ctx, ops)
	}
	err := t.engine.pipeline(ctx, t.conn.Value(), t.conn.Value().batch(), t.ws, ops, ending{commit: commit, changes: commit})
	if err == nil && commit {
		t.release()
	}
	return err
}

func (t *transaction) begin(ctx context.Context, ops []*db.Op) error {
	for {
		c, reused, err := t.engine.acquire(ctx)
		if err != nil {
			return err
		}
		t.conn = c // Rollback returns it in any case
		b := c.Value().begin()
		b.say("BEGIN")
		t.engine.enter(ctx, b, t.ws)
		err = t.engine.pipeline(ctx, c.Value(), b, t.ws, ops, ending{})
		if !t.engine.again(ctx, err, reused) {
			return err
		}
		t.release()
	}
}

func (t *transaction) Rollback(ctx context.Context) error {
	if t.conn == nil {
		return nil
	}
	defer t.release()
	if t.conn.Value().IsClosed() {
		return nil
	}
	return t.conn.Value().Exec(ctx, "ROLLBACK").Close()
}

func (t *transaction) release() {
	t.engine.release(t.conn)
	t.conn = nil
}

// ending says how a pipeline ends.
type ending struct {
	commit  bool // COMMIT is its last statement
	changes bool // the end of the pipeline makes its changes permanent
}

// errSilent means that a server did not answer for longer than a statement may take.
var errSilent = errors.New("the database server did not answer in time")

// pipeline sends b, which holds statements of this package, followed by ops, and reads all answers.
// It waits only as long as patience allows. When no answer came, it also drops the other
// connections.
func (e *engine) pipeline(ctx context.Context, c *conn, b *batch, ws db.Workspace, ops []*db.Op, end ending) error {
	awaited := ctx
	if end.changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		var stay context.CancelFunc
		awaited, stay = outlive(ctx)
		defer stay()
	}
	limited, cancel := context.WithTimeoutCause(awaited, e.patience(ops, end), errSilent)
	defer cancel()
	err := e.send(limited, c, b, ws, ops, end)
	if errors.Is(err, errSilent) {
		e.forget()
		if left := ctx.Err(); left != nil {
			err = fmt.Errorf("%w: %w", err, left)
		}
	}
	return err
}

// goodbye is how much longer than its caller pipeline waits for the outcome of a change.
const goodbye = time.Second

// outlive returns a context for a change whose caller leaves: its outcome is awaited a moment
// longer and reported. Otherwise a server that had not begun by then could run the change after the
// caller's next action, such as a release of what the change had acquired.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	timer := make(chan *time.Timer, 1)
	stop := context.AfterFunc(ctx, func() { timer <- time.AfterFunc(goodbye, func() { end(ctx.Err()) }) })
	return longer, func() {
		if !stop() {
			(<-timer).Stop()
		}
		end(nil)
	}
}

// patience returns how long to wait for the answers of a pipeline. A server answers when all
// statements are done, and each may take its time. Giving up earlier on changes would leave their
// outcome unknown. A pipeline without changes is repeated instead.
func (e *engine) patience(ops []*db.Op, end ending) time.Duration {
	if !end.changes {
		return e.silence
	}
	return e.silence * time.Duration(max(len(ops), 1))
}

func (e *engine) send(ctx context.Context, c *conn, b *batch, ws db.Workspace, ops []*db.Op, end ending) error {
	lead := b.count
	for _, op := range ops {
		args, err := op.Arguments(ws)
		if err != nil {
			return err
		}
		b.queue(op.Query.Text(db.Postgres), args...)
	}
	if end.commit {
		b.say("COMMIT")
	}
	if b.err != nil {
		return b.err
	}
	if c.IsClosed() {
		return &deadError{fmt.Errorf("%w: %w", db.ErrUnavailable, pgconn.ErrConnClosed)}
	}
	res := c.ExecBatch(ctx, &b.Batch)
	err := e.read(ctx, res, c, b, lead, ops, end)
	if cerr := res.Close(); err == nil {
		err = mapError(cause(ctx, cerr), c.IsClosed(), end.changes)
	}
	return err
}

// cause replaces err by what ended ctx, when that is the reason: the silence, or the deadline of a
// change's caller.
func cause(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	if err != nil && (why == errSilent || why == context.DeadlineExceeded) && errors.Is(err, ctx.Err()) { //nolint:errorlint // as set here
		return why
	}
	return err
}

func (e *engine) read(ctx context.Context, res *pgconn.MultiResultReader, c *conn, b *batch, lead int, ops []*db.Op, end ending) error {
	for i := range lead {
		if _, err := b.next(res, i, nil); err != nil {
			return e.leadError(cause(ctx, err), c.IsClosed(), end.changes)
		}
	}
	for i, op := range ops {
		affected, err := b.next(res, lead+i, op)
		if err == nil {
			err = op.Done(affected)
		}
		if err != nil {
			err = cause(ctx, err)
			return &db.OpError{Query: op.Query.Name(), Err: mapError(err, c.IsClosed(), end.changes && !ended(err))}
		}
	}
	if end.commit {
		if _, err := next(res, nil); err != nil {
			return mapError(cause(ctx, err), c.IsClosed(), true)
		}
	}
	return nil
}

// next reads the answer to the next statement. It passes the rows to op, if it wants them, and returns
// how many there were, or were affected.
func next(res *pgconn.MultiResultReader, op *db.Op) (affected int64, err error) {
	if !res.NextResult() {
		if err := res.Close(); err != nil {
			return 0, err
		}
		return 0, errors.New("the server answered fewer statements than it was sent")
	}
	r := res.ResultReader()
	for op != nil && op.WantsRows() && r.NextRow() {
		if err := op.Row(func(dest ...any) error { return scan(r.FieldDescriptions(), r.Values(), dest) }); err != nil {
			return 0, err
		}
	}
	tag, err := r.Close()
	return tag.RowsAffected(), err
}
