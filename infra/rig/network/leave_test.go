package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanekeeper/lanekeeper/infra/rig/outside"
	"github.com/lanekeeper/lanekeeper/infra/rig/promise"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

const (
	leavers  = 8
	ofServer = 4 // database connections that all requests of the callers share
)

// R36 over HTTP: callers disconnect at random instants of their requests: during the headers, the
// body or a stream, or before the response. The effect of an answered request exists once. The
// effect of an abandoned request exists completely or not at all. The turns that were begun end,
// and no resource leaks.
func TestCallersLeaveOverHTTP(t *testing.T) {
	calls := promise.Figure(240, 34_000) // on each of three engines
	seed := promise.Seed(t)
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres, dbtest.OnPgBouncer} {
		t.Run(engine, func(t *testing.T) {
			proof := promise.Of(t, "R36", "requests left at random instants over HTTP, on "+engine, "0 connections, lanes, goroutines, transactions left; what was answered is there once")
			goroutines := runtime.NumGoroutine()
			l := newLeaving(t, engine)
			var wg sync.WaitGroup
			for i := range leavers {
				c := l.caller(seed, i)
				wg.Go(func() {
					for range calls / leavers {
						if c.call(t); t.Failed() {
							return
						}
					}
				})
			}
			wg.Wait()
			l.settled(t)
			l.nothingLeft(t, goroutines)
			proof.Tell("%d requests, %d left, %d of %d objectives and %d of %d turns among those are there; nothing left behind",
				calls, l.left.Load(), l.maybe["objective"].there, l.maybe["objective"].asked, l.maybe["turn"].there, l.maybe["turn"].asked)
			if left := int(l.left.Load()); left < calls/10 || left > calls*9/10 {
				t.Errorf("%d of %d requests were left: the instants are not those of the requests", left, calls)
			}
		})
	}
}

// leaving is a server and the state that all of its callers share.
type leaving struct {
	dbtest.Env
	*side
	outside *outside.World
	server  *httptest.Server
	name    string // application name of the server's connections in Postgres
	q       struct{ Titles, Unended, Executions, One db.Query }

	usual []atomic.Int64 // by way: median duration in nanoseconds
	left  atomic.Int64
	last  atomic.Value // the id of an execution, once there is one

	mu      sync.Mutex
	certain map[string][]string // by kind: keys of answered requests
	unknown map[string][]string // by kind: keys of abandoned requests
	maybe   map[string]*tally
}

// tally counts abandoned requests, and how many of them had their effect.
type tally struct{ asked, there int }

func newLeaving(t *testing.T, engine string) *leaving {
	t.Helper()
	l := &leaving{
		Env: dbtest.New(t, engine), outside: outside.Start(), usual: make([]atomic.Int64, len(waysToLeave)),
		certain: map[string][]string{}, unknown: map[string][]string{}, maybe: map[string]*tally{"objective": {}, "turn": {}},
	}
	t.Cleanup(l.outside.Close)
	l.name = "leave-" + string(l.Workspace[:8])
	backend := []string{"STATE_BACKEND=sqlite"}
	if engine != dbtest.OnSQLite { // only one handle may open the file
		l.URL += "&application_name=" + l.name
		l.Env.DB, l.Skew = l.Open(t, ofServer)
		backend = []string{"STATE_BACKEND=postgres", "DATABASE_URL=" + l.URL}
	}
	l.side = newSide(t, l.Env.DB, time.Minute, append(backend, "SECRET_KEY_FILE="+filepath.Join(t.TempDir(), "key"), "LLM_PROVIDER=openai", "LLM_MODEL=x",
		"OPENAI_API_KEY=x", "OPENAI_BASE_URL="+l.outside.URL+"/model")...)
	check(t, db.Load(fstest.MapFS{"leave.sql": {Data: []byte(`
-- name: Titles
SELECT title FROM agent_objectives WHERE workspace_id = $1;
-- name: Unended
SELECT id FROM executions WHERE workspace_id = $1 AND status IN ('running', 'waiting', 'parked');
-- name: Executions
SELECT input FROM executions WHERE workspace_id = $1 AND surface = 'op';
-- name: One
SELECT id FROM agent_skills WHERE workspace_id = $1;
`)}}, &l.q))
	l.must(t, l.Workspace, "POST", "/skills", `{"name":"note","kind":"http","description":"Does it.",
		"parameters":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]},
		"config":{"url":"`+l.outside.URL+`/note","idempotencyKeyHeader":"Idempotency-Key"}}`, nil)
	l.server = httptest.NewServer(l.Handler)
	t.Cleanup(l.server.Close)
	for way := range l.usual {
		l.usual[way].Store(int64(10 * time.Millisecond))
	}
	return l
}

// caller is a client that disconnects. It has its own connections.
type caller struct {
	*leaving
	client *http.Client
	random *rand.Rand
	name   string
	last   int
}

func (l *leaving) caller(seed uint64, i int) *caller {
	return &caller{leaving: l, client: &http.Client{Transport: &http.Transport{}}, random: rand.New(rand.NewPCG(seed, uint64(i))), name: fmt.Sprint(i)}
}

// waysToLeave are the kinds of requests. longest limits the estimate of a request's duration.
var waysToLeave = []struct {
	ask     func(*caller, context.Context) error
	longest time.Duration
}{
	{(*caller).read, time.Second}, {(*caller).create, time.Second}, {(*caller).create, time.Second}, {(*caller).turn, time.Second},
	{(*caller).follow, 20 * time.Millisecond}, {(*caller).listen, 20 * time.Millisecond},
	{(*caller).stall, 20 * time.Millisecond}, {(*caller).breakOff, 20 * time.Millisecond},
}

var errLeft = errors.New("left")

// call sends one request, which the caller may abandon.
func (c *caller) call(t *testing.T) {
	n := c.random.IntN(len(waysToLeave))
	way, usual := waysToLeave[n], &c.usual[n]
	instant := time.Duration(c.random.Int64N(2 * usual.Load()))
	ctx, cancel := context.WithTimeout(t.Context(), instant)
	defer cancel()
	err := way.ask(c, ctx)
	if err == nil {
		usual.Store(max(int64(20*time.Microsecond), usual.Load()*4/5))
		return
	}
	c.leaving.left.Add(1)
	usual.Store(min(int64(way.longest), usual.Load()*5/4))
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errLeft) {
		t.Errorf("way %d: who left after %s got %v", n, instant, err)
	}
	c.client.CloseIdleConnections()
}

func (c *caller) key(what string) string {
	c.last++
	return fmt.Sprintf("%s-%s-%d", what, c.name, c.last)
}

// send sends a request. take reads as much of the response as it wants.
func (c *caller) send(ctx context.Context, method, path string, body io.Reader, key string, take func(*http.Response) error) error {
	r, err := http.NewRequestWithContext(ctx, method, c.server.URL+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+string(c.Workspace))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		return &refused{answer.StatusCode, string(text)}
	}
	if err := take(answer); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func all(*http.Response) error { return nil }

// refused is a response which says that the request was not carried out.
type refused struct {
	status int
	text   string
}

func (e *refused) Error() string { return fmt.Sprintf("refused: %d %s", e.status, e.text) }

func (c *caller) read(ctx context.Context) error {
	return c.send(ctx, http.MethodGet, "/activity?limit=50", nil, "", all)
}

// done records the result of a request by its key.
func (c *caller) done(kind, key string, accepted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if accepted {
		c.certain[kind] = append(c.certain[kind], key)
	} else {
		c.unknown[kind] = append(c.unknown[kind], key)
	}
}

func (c *caller) create(ctx context.Context) error {
	key := c.key("objective")
	accepted := false
	err := c.send(ctx, http.MethodPost, "/objectives", strings.NewReader(objectiveOf(key)), key, func(*http.Response) error { accepted = true; return nil })
	c.done("objective", key, accepted)
	return err
}

func objectiveOf(key string) string {
	return fmt.Sprintf(`{"title":%q,"doneCriterion":"it is done"}`, key)
}

// turn sends the agent a message. A stream begins after the turn is stored.
func (c *caller) turn(ctx context.Context) error {
	key := c.key("turn")
	accepted := false
	body := fmt.Sprintf(`{"message":"note %s","stream":%t}`, key, c.random.IntN(2) == 0)
	err := c.send(ctx, http.MethodPost, "/operate", strings.NewReader(body), "", func(answer *http.Response) error {
		accepted = true
		if id := answer.Header.Get("X-Execution-Id"); id != "" {
			c.leaving.last.Store(id)
		}
		return nil
	})
	if tooMany(err) { // the queue is full of turns that continue
		c.done("refused", key, false)
		return nil
	}
	c.done("turn", key, accepted)
	return err
}

func tooMany(err error) bool {
	no, ok := errors.AsType[*refused](err)
	return ok && no.status == http.StatusTooManyRequests
}

// follow follows the events of a turn.
func (c *caller) follow(ctx context.Context) error {
	id, _ := c.leaving.last.Load().(string)
	if id == "" {
		return c.read(ctx)
	}
	err := c.send(ctx, http.MethodGet, "/executions/"+id+"/events", nil, "", all)
	if tooMany(err) { // the streams that were left do not end as fast as these callers open others
		return nil
	}
	return err
}

// listen reads the workspace's endless stream of events until the second event.
func (c *caller) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := errors.New("read")
	err := c.send(ctx, http.MethodGet, "/events", nil, "", func(answer *http.Response) error {
		_, err := io.ReadFull(answer.Body, make([]byte, 64))
		if err == nil {
			err = read
		}
		return err
	})
	if errors.Is(err, read) || tooMany(err) {
		return nil
	}
	return err
}

// stall sends half of a body and disconnects.
func (c *caller) stall(ctx context.Context) error {
	key := c.key("objective")
	body := objectiveOf(key)
	rest, never := io.Pipe()
	defer never.Close()
	half := c.random.IntN(len(body))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.URL+"/api/v1/objectives", io.MultiReader(strings.NewReader(body[:half]), rest))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = never.CloseWithError(ctx.Err()) })()
	r.ContentLength = int64(len(body))
	r.Header.Set("Authorization", "Bearer "+string(c.Workspace))
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err == nil {
		err = fmt.Errorf("half of a body was answered by %d", answer.StatusCode)
		answer.Body.Close()
	}
	c.done("half", key, false)
	return err
}

// breakOff writes a part of a request's bytes and closes the connection.
func (c *caller) breakOff(ctx context.Context) error {
	key := c.key("objective")
	body := objectiveOf(key)
	var raw bytes.Buffer
	fmt.Fprintf(&raw, "POST /api/v1/objectives HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.server.Listener.Addr(), c.Workspace, key, len(body), body)
	conn, err := net.Dial("tcp", c.server.Listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	n := raw.Len()
	if c.random.IntN(2) == 0 {
		n = c.random.IntN(n)
	}
	if _, err := conn.Write(raw.Bytes()[:n]); err != nil {
		return err
	}
	defer func() {
		if c.random.IntN(2) == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // sends a reset
		}
	}()
	c.done("objective", key, false)
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(deadline)
	}
	if n < raw.Len() {
		<-ctx.Done()
		return errLeft
	}
	answer := make([]byte, len("HTTP/1.1 201"))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return errLeft
	}
	if !bytes.HasSuffix(answer, []byte("201")) {
		return fmt.Errorf("all of it was answered by %q", answer)
	}
	return nil
}

// settled lets all begun work end, and checks that the ledger agrees with the responses that the
// callers received. It then repeats the abandoned requests for objectives under their keys.
func (l *leaving) settled(t *testing.T) {
	t.Helper()
	l.eventually(t, "turns that have not ended", func() (string, bool) {
		l.working.Wait()
		_ = l.invoke("tending", func(ctx context.Context) error { l.Tender.Tend(ctx, l.Workspace); return nil })
		l.working.Wait()
		open := l.read(t, l.q.Unended)
		if len(open) > 0 {
			l.Skew.Advance(step) // so that rows of the outbox become due
		}
		return fmt.Sprint(len(open)), len(open) == 0
	})
	times := map[string]int{}
	for _, title := range l.read(t, l.q.Titles) {
		times[title]++
	}
	begun := map[string]int{}
	for _, input := range l.read(t, l.q.Executions) {
		var asked struct{ Message string }
		check(t, json.Unmarshal([]byte(input), &asked))
		begun[strings.TrimPrefix(asked.Message, "note ")]++
	}
	for _, key := range l.certain["objective"] {
		if times[key] != 1 {
			t.Errorf("%s was answered, and is there %d times", key, times[key])
		}
	}
	for _, key := range l.unknown["half"] {
		if times[key] != 0 {
			t.Errorf("half of %s came, and it is there", key)
		}
	}
	for _, key := range l.unknown["refused"] {
		if begun[key] != 0 {
			t.Errorf("%s was refused, and begun", key)
		}
	}
	for _, key := range l.certain["turn"] {
		if begun[key] != 1 || l.outside.Effects(key) != 1 {
			t.Errorf("%s was begun %d times, and had %d effects", key, begun[key], l.outside.Effects(key))
		}
	}
	for _, key := range l.unknown["turn"] {
		if n := l.outside.Effects(key); begun[key] > 1 || n != begun[key] {
			t.Errorf("%s was left; it was begun %d times, and had %d effects", key, begun[key], n)
		}
		l.maybe["turn"].add(begun[key])
	}
	for _, key := range l.unknown["objective"] {
		l.maybe["objective"].add(times[key])
		if w := l.ask(t.Context(), l.Workspace, http.MethodPost, "/objectives", objectiveOf(key), "Idempotency-Key", key); w.Code != http.StatusCreated {
			t.Errorf("%s is asked for again: %d %s", key, w.Code, w.Body)
		}
	}
	clear(times)
	for _, title := range l.read(t, l.q.Titles) {
		times[title]++
	}
	for _, key := range l.unknown["objective"] {
		if times[key] != 1 {
			t.Errorf("%s was left and asked for again, and is there %d times", key, times[key])
		}
	}
}

func (n *tally) add(there int) {
	n.asked++
	n.there += there
}

// read returns the first column of all rows.
func (l *leaving) read(t *testing.T, q db.Query) (all []string) {
	t.Helper()
	check(t, l.Env.DB.Each(t.Context(), l.Workspace, func(scan db.Scan) error {
		all = append(all, "")
		return scan(&all[len(all)-1])
	}, q))
	return all
}

// nothingLeft fails unless all lanes are free, all database connections are usable at once, no
// transaction is open, and no goroutine is left.
func (l *leaving) nothingLeft(t *testing.T, goroutines int) {
	t.Helper()
	for _, held := range must(l.Lanes.List(t.Context(), l.Workspace, 100))(t) {
		t.Errorf("lane %s is held by %s", held.Lane, held.Holder)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var together, reading sync.WaitGroup
	together.Add(ofServer)
	met := make(chan struct{})
	for range ofServer {
		reading.Go(func() {
			if err := l.Env.DB.Each(soon, l.Workspace, func(db.Scan) error {
				together.Done()
				select {
				case <-met:
					return nil
				case <-soon.Done():
					return soon.Err()
				}
			}, l.q.One); err != nil {
				t.Errorf("a read afterwards: %v", err)
			}
		})
	}
	go func() { together.Wait(); close(met) }()
	reading.Wait()
	if l.Engine != dbtest.OnSQLite {
		admin, err := pgx.Connect(soon, dbtest.Servers(t).PostgresURL)
		check(t, err)
		defer admin.Close(context.WithoutCancel(soon))
		l.eventually(t, "transactions", func() (string, bool) {
			var conns, busy int
			err := admin.QueryRow(soon, `SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity WHERE application_name = $1`,
				l.name).Scan(&conns, &busy)
			return fmt.Sprintf("%d of %d connections, %v", busy, conns, err), err == nil && busy == 0 && conns <= ofServer
		})
	}
	l.server.Close()
	l.eventually(t, "goroutines", func() (string, bool) {
		now := runtime.NumGoroutine()
		return fmt.Sprintf("%d, and before %d", now, goroutines), now <= goroutines+2*ofServer
	})
}

func (l *leaving) eventually(t *testing.T, what string, look func() (string, bool)) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		said, ok := look()
		if ok {
			return
		}
		if time.Now().After(until) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%s left behind: %s\n%s", what, said, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}
