package postgres

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// A connection prepares each statement when it is used again, so that Postgres parses it once and may
// keep its plan. It does so only if nothing stands between it and its server: a transaction pooler
// would run the statement on a server that does not know it.

// unknownStatement is the code of an error about a prepared statement that does not exist.
const unknownStatement = "26000"

const (
	// keptStatements is how many prepared statements a connection keeps. The server holds a plan of each.
	keptStatements = 200
	// keptFor is how long it keeps them. A plan does not grow older than that, whatever became of the
	// tables that it reads.
	keptFor = 10 * time.Minute
)

// statements are what a connection has prepared. The zero value prepares nothing.
type statements struct {
	direct bool              // no pooler stands between the connection and its server
	stale  bool              // the server refused a prepared statement: the connection is of no use
	forgot bool              // because it does not know the statement any more
	since  time.Time         // when the first was used
	made   int               // the number of the next name
	used   map[string]bool   // texts that were used without being prepared
	names  map[string]string // of prepared statements, by their texts
}

// batch returns a pipeline that continues a transaction.
func (s *statements) batch() *batch { return &batch{to: s} }

// begin returns a pipeline that begins a transaction. It has the server forget all statements first, if
// they are too many or too old.
func (s *statements) begin() *batch {
	b := s.batch()
	switch now := wall(); {
	case !s.direct:
	case s.names == nil:
		s.since, s.used, s.names = now, map[string]bool{}, map[string]string{}
	case len(s.names) >= keptStatements || now.Sub(s.since) > keptFor:
		s.names = nil
		b.say("DEALLOCATE ALL")
	}
	return b
}

// preparable reports whether Postgres can prepare a statement, and may plan it once for all arguments.
func preparable(text string) bool {
	if optional(text) {
		return false
	}
	word := text
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		word = text[:end]
	}
	switch word {
	case "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "VALUES":
		return true
	}
	return false
}

// optional reports whether a statement has a condition that a NULL argument switches off. Such a statement
// is planned for its arguments each time: the plan for all of them can use no index for the condition, and
// Postgres takes it for as good.
func optional(text string) bool {
	for {
		before, after, found := strings.Cut(text, " IS NULL OR ")
		if !found {
			return false
		}
		if word := before[strings.LastIndexAny(before, "( ")+1:]; strings.HasPrefix(word, "$") {
			return true
		}
		if strings.HasPrefix(before[strings.LastIndexByte(before, '(')+1:], "$") { // CAST($2 AS text)
			return true
		}
		text = after
	}
}

// batch is a pipeline of statements for a connection.
type batch struct {
	pgconn.Batch
	to    *statements
	count int            // of statements, without those that prepare others
	fresh map[int]string // the texts that the statement with this number is preceded by the preparation of
	names map[string]string
	err   error // of an argument
}

// say adds a statement without arguments, which is never prepared.
func (b *batch) say(text string) {
	b.count++
	b.ExecParams(text, nil, nil, nil, nil)
}

// queue adds a statement.
func (b *batch) queue(text string, args ...any) {
	texts, err := parameters(args)
	b.err = cmp.Or(b.err, err)
	if name := b.prepared(text); name != "" {
		b.ExecPrepared(name, texts, nil, nil)
	} else {
		b.ExecParams(text, texts, nil, nil, nil)
	}
	b.count++
}

// prepared returns the name of a prepared statement, which it has prepared if need be. It returns "" for
// a statement that is used for the first time.
func (b *batch) prepared(text string) string {
	if b.to.names == nil || !preparable(text) {
		return ""
	}
	if name := cmp.Or(b.to.names[text], b.names[text]); name != "" {
		return name
	}
	if !b.to.used[text] {
		b.to.used[text] = true
		return ""
	}
	if b.fresh == nil {
		b.fresh, b.names = map[int]string{}, map[string]string{}
	}
	b.to.made++
	name := "lk" + strconv.Itoa(b.to.made)
	b.ExecParams("PREPARE "+name+" AS "+text, nil, nil, nil, nil)
	b.fresh[b.count], b.names[text] = text, name
	return name
}

// next reads the answer to a statement, and before it that to its preparation, if there was one. Only then
// does the connection know its name: after an error the server skips what follows.
func (b *batch) next(res *pgconn.MultiResultReader, statement int, op *db.Op) (affected int64, err error) {
	if text, ok := b.fresh[statement]; ok {
		if _, err := next(res, nil); err != nil {
			return 0, err
		}
		b.to.names[text] = b.names[text]
	}
	affected, err = next(res, op)
	if outdated(err) {
		pe, _ := errors.AsType[*pgconn.PgError](err)
		b.to.stale, b.to.forgot = true, pe.Code == unknownStatement
	}
	return affected, err
}

// outdated reports whether the server refused a prepared statement as such: it has forgotten it, or a
// migration changed the type of a column. The statement itself may be run again.
func outdated(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == unknownStatement || pe.Code == "0A000" && pe.Routine == "RevalidateCachedQuery")
}
