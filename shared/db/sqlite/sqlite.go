// Package sqlite is the engine for SQLite. It has one writer, whose transactions are IMMEDIATE, and
// a query_only pool for reads. Times are integer microseconds of UTC. lk_now() is a registered
// function.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Config configures the engine.
type Config struct {
	// Path is the path of the file. The file and its folder are created when missing (modes 600,
	// 700).
	Path string
	// Schema is the schema version that the program was built for. An older schema is refused, and
	// so is a newer one unless it allows this build. Zero accepts any schema.
	Schema int64
	// Keep leaves a damaged database of Lanekeeper where it is.
	Keep bool
	// Skew shifts the database's clock for this handle (tests).
	Skew *db.Skew
}

// readers is the size of the pool for reads.
const readers = 4

type engine struct {
	writer *session
	turn   chan struct{} // holds one token; its owner may write
	// looking holds a place for each reader: its session, with the statements that it has prepared, or
	// nil when it has none yet.
	looking chan *session
	closing sync.Mutex
	closed  bool // no session goes back to its place
	write   *sql.DB
	read    *sql.DB
	trace   atomic.Value // a string: the trace of the transaction that writes
	need    int64
	// changed is the data_version of the writer's connection at the last check of the schema. It
	// changes with each commit of another connection. Only the owner of the turn may use it.
	changed int64
}

// Open opens the file and checks that it is sound. It renames a damaged database of Lanekeeper unless
// it is to be kept, never deletes it, and returns a [CorruptError]. It leaves any other file unchanged and returns a
// [ForeignError]. It waits up to 10 s for another process that sets the file up.
func Open(ctx context.Context, cfg Config) (*db.DB, error) {
	if err := ensureFile(cfg.Path); err != nil {
		return nil, err
	}
	for until := time.Now().Add(setUpLimit); ; {
		d, err := open(ctx, cfg)
		if !busy(err) || time.Now().After(until) {
			return d, err
		}
		select {
		case <-time.After(setUpPause):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

const (
	setUpLimit = 10 * time.Second
	setUpPause = 20 * time.Millisecond
)

// busy reports whether SQLite gave up on a lock. Where a wait might never end, as while another
// connection switches the file to its log, SQLite gives up at once, whatever timeout is set.
func busy(err error) bool {
	se, ok := errors.AsType[*sqlite.Error](err)
	return ok && se.Code()&0xff == lib.SQLITE_BUSY
}

func open(ctx context.Context, cfg Config) (*db.DB, error) {
	err := Inspect(ctx, cfg.Path, false)
	if _, foreign := errors.AsType[*ForeignError](err); foreign {
		return nil, err
	}
	if errors.Is(err, db.ErrCorrupt) {
		if cfg.Keep {
			return nil, &CorruptError{Path: cfg.Path, Err: err}
		}
		return nil, moveAside(cfg.Path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Path, err)
	}
	e := &engine{turn: make(chan struct{}, 1), looking: make(chan *session, readers), need: cfg.Schema}
	for range readers {
		e.looking <- nil
	}
	if e.write, e.read, err = openPools(cfg, &e.trace); err != nil {
		return nil, err
	}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", cfg.Path, err), e.Close())
	}
	return db.New(e), nil
}

// OpenPools opens the bare pools: one writing connection, and several that only read. The
// migrations need the first.
func OpenPools(cfg Config) (write, read *sql.DB, err error) {
	return openPools(cfg, new(atomic.Value))
}

func openPools(cfg Config, id *atomic.Value) (write, read *sql.DB, err error) {
	if err := ensureFile(cfg.Path); err != nil {
		return nil, nil, err
	}
	d := &sqlite.Driver{}
	if err := register(d, cfg.Skew, id); err != nil {
		return nil, nil, err
	}
	write = sql.OpenDB(connector{d, dsn(cfg.Path, "synchronous(FULL)")})
	write.SetMaxOpenConns(1)
	read = sql.OpenDB(connector{d, dsn(cfg.Path, "query_only(1)")})
	read.SetMaxOpenConns(readers + 1) // the sessions of the readers stay open, and one looks at the schema
	return write, read, nil
}

// ensureFile creates the file when it is missing. It does not even open an existing file: by the
// rules of POSIX, closing it would release the locks that other handles of this process have on it.
func ensureFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make folder of the database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the database file: %w", err)
	}
	return f.Close()
}

const busyTimeout = "busy_timeout(5000)"

func dsn(path, pragma string) string {
	return uri(path, url.Values{"_pragma": {"journal_mode(WAL)", busyTimeout, "foreign_keys(1)", pragma}, "_txlock": {"immediate"}})
}

func uri(path string, q url.Values) string { return "file:" + url.PathEscape(path) + "?" + q.Encode() }

// connector opens connections with a driver of its own, so that lk_now belongs to this handle and
// not to the process.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// register defines the SQL functions that the Postgres migrations define there, and lk_trace: the
// trace of the transaction that writes, or empty.
func register(d *sqlite.Driver, skew *db.Skew, id *atomic.Value) error {
	now := func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().Add(skew.Offset()).UnixMicro(), nil
	}
	plus := func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		t, ok := args[0].(int64)
		ms, ok2 := args[1].(int64)
		if !ok || !ok2 {
			return nil, nil // null in, null out
		}
		return t + ms*1000, nil
	}
	if err := d.RegisterScalarFunction("lk_now", 0, now); err != nil {
		return fmt.Errorf("register lk_now: %w", err)
	}
	if err := d.RegisterDeterministicScalarFunction("lk_plus", 2, plus); err != nil {
		return fmt.Errorf("register lk_plus: %w", err)
	}
	traced := func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) { return id.Load(), nil }
	if err := d.RegisterScalarFunction("lk_trace", 0, traced); err != nil {
		return fmt.Errorf("register lk_trace: %w", err)
	}
	// With one writer, everything that can be read is settled.
	settled := func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) { return int64(math.MaxInt64), nil }
	for _, name := range []string{"lk_settled", "lk_begun"} {
		if err := d.RegisterDeterministicScalarFunction(name, 0, settled); err != nil {
			return fmt.Errorf("register %s: %w", name, err)
		}
	}
	return nil
}

func (e *engine) start(ctx context.Context) error {
	c, err := e.write.Conn(ctx)
	if err != nil {
		return mapError(err)
	}
	e.writer = newSession(c)
	e.turn <- struct{}{}
	return e.Check(ctx)
}

func (e *engine) Dialect() db.Dialect { return db.SQLite }

// Close waits for nobody: who writes or reads now finds its connection closed, and a reader closes its
// session itself.
func (e *engine) Close() error {
	var errs []error
	if e.writer != nil {
		select {
		case <-e.turn:
			errs = append(errs, e.writer.close())
			e.turn <- struct{}{}
		default: // its statements belong to who writes
			errs = append(errs, e.writer.conn.Close())
		}
	}
	return errors.Join(append(errs, e.closeReaders(), e.read.Close(), e.write.Close())...)
}

func (e *engine) closeReaders() error {
	e.closing.Lock()
	defer e.closing.Unlock()
	e.closed = true
	var errs []error
	for places := 0; ; places++ {
		select {
		case s := <-e.looking:
			if s != nil {
				errs = append(errs, s.close())
			}
		default:
			for range places {
				e.looking <- nil
			}
			return errors.Join(errs...)
		}
	}
}

func (e *engine) Check(ctx context.Context) error {
	if e.need == 0 {
		return nil
	}
	have, err := e.Schema(ctx)
	if err != nil {
		return err
	}
	oldest := int64(0)
	if have > e.need {
		err = e.read.QueryRowContext(ctx,
			"SELECT max(coalesce(oldest, version_id)) FROM lk_schema_version WHERE version_id > $1", e.need).Scan(&oldest)
		if err != nil {
			return fmt.Errorf("read for which builds the schema is: %w", mapError(err))
		}
	}
	return db.CheckSchema(e.need, have, oldest)
}

// unchanged checks the schema again when another connection, perhaps of a newer program, has
// committed since the last check. So nothing is written into a schema that does not allow this
// build. It must be called in the writer's transaction.
func (e *engine) unchanged(ctx context.Context) error {
	if e.need == 0 {
		return nil
	}
	var now int64
	if err := e.writer.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA data_version").Scan(&now); err != nil {
		return fmt.Errorf("look whether others have written: %w", mapError(err))
	}
	if now == e.changed {
		return nil
	}
	if err := e.Check(ctx); err != nil {
		return err
	}
	e.changed = now
	return nil
}

// Schema returns zero when there is no schema.
func (e *engine) Schema(ctx context.Context) (int64, error) {
	var version sql.NullInt64
	err := e.read.QueryRowContext(ctx,
		"SELECT (SELECT max(version_id) FROM lk_schema_version) FROM sqlite_master WHERE name = 'lk_schema_version'").Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !missingTable(err) {
		return 0, mapError(err)
	}
	return version.Int64, nil
}

func (e *engine) Prepare(ctx context.Context, text string) (err error) {
	stmt, err := e.read.PrepareContext(ctx, text)
	if err != nil {
		return mapError(err)
	}
	defer func() { err = stmt.Close() }()
	return nil
}

func (e *engine) Do(ctx context.Context, ws db.Workspace, readOnly bool, ops []*db.Op) error {
	switch {
	case !readOnly:
		return e.change(ctx, ws, ops)
	case len(ops) == 0:
		return e.Check(ctx)
	}
	return e.look(ctx, ws, ops)
}

// change and look release what they acquired, and roll back, also when the reader of the rows
// panics.

func (e *engine) change(ctx context.Context, ws db.Workspace, ops []*db.Op) (err error) {
	t, err := e.Begin(ctx, ws)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Rollback(ctx)) }() // does nothing after a commit
	return t.Send(ctx, ops, true)
}

func (e *engine) look(ctx context.Context, ws db.Workspace, ops []*db.Op) (err error) {
	s, err := e.sit(ctx)
	if err != nil {
		return err
	}
	ended := false
	defer func() { err = errors.Join(err, e.leave(s, ended)) }()
	if err := s.whole(ctx, "BEGIN DEFERRED"); err != nil {
		return mapError(err)
	}
	defer func() {
		end := s.whole(ctx, "COMMIT")
		ended, err = end == nil, errors.Join(err, mapError(end))
	}()
	return s.run(ctx, ws, ops)
}

// sit waits for a reader's place and returns its session.
func (e *engine) sit(ctx context.Context) (*session, error) {
	var s *session
	select {
	case s = <-e.looking:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a SQLite reader: %w", ctx.Err())
	}
	if s != nil {
		return s, nil
	}
	c, err := e.read.Conn(ctx)
	if err != nil {
		e.looking <- nil
		return nil, mapError(err)
	}
	return newSession(c), nil
}

// leave gives a reader's place back: with its session, unless that may still be in a transaction.
func (e *engine) leave(s *session, ended bool) (err error) {
	e.closing.Lock()
	defer e.closing.Unlock()
	switch {
	case !ended:
		err, s = s.discard(), nil
	case e.closed:
		err, s = s.close(), nil
	}
	e.looking <- s
	return err
}

// Begin waits for the writer's turn. A cancelled caller leaves the queue.
func (e *engine) Begin(ctx context.Context, ws db.Workspace) (db.Transaction, error) {
	select {
	case <-e.turn:
		return &transaction{engine: e, ws: ws}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the SQLite writer: %w", ctx.Err())
	}
}

type transaction struct {
	engine *engine
	ws     db.Workspace
	begun  bool
	ended  bool
}

func (t *transaction) Send(ctx context.Context, ops []*db.Op, commit bool) error {
	w := t.engine.writer
	if !t.begun {
		if err := w.whole(ctx, "BEGIN IMMEDIATE"); err != nil {
			return mapError(err)
		}
		t.begun = true
		if err := t.engine.unchanged(ctx); err != nil {
			return err
		}
		id, _ := trace.From(ctx)
		t.engine.trace.Store(string(id))
	}
	if err := w.run(ctx, t.ws, ops); err != nil {
		return err
	}
	if !commit {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.whole(ctx, "COMMIT"); err != nil {
		return mapError(err)
	}
	t.end()
	return nil
}

func (t *transaction) Rollback(ctx context.Context) error {
	if t.ended {
		return nil
	}
	defer t.end()
	if !t.begun {
		return nil
	}
	err := t.engine.writer.whole(ctx, "ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "no transaction is active") {
		return nil // SQLite rolled it back itself, as it does when a write is interrupted
	}
	return mapError(err)
}

func (t *transaction) end() {
	t.ended = true
	t.engine.turn <- struct{}{}
}
