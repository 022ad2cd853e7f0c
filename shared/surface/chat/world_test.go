package chat_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/app/wire/wiretest"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/sse"
	"github.com/lanekeeper/lanekeeper/shared/surface/chat"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ids() string { return uuid.Must(uuid.NewV7()).String() }

// The tokens of a world.
const (
	site   = "token-of-a-site"
	other  = "token-of-another-site"
	key    = "token-of-a-key"
	reader = "token-of-a-reading-key"
	admin  = "token-of-an-admin"
	agent  = "token-of-an-agent"
)

// siteOrigin is the origin of the pages of site. Requests come from there unless their headers say
// otherwise.
const siteOrigin = "https://site.example"

// world is chat over a fresh workspace on one engine, behind a real server.
type world struct {
	*chat.Handler
	dbtest.Env
	url  string
	logs *logs
	left chan struct{} // a request has ended, or its caller has left

	mu   sync.Mutex
	paid int
}

func onEach(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, e dbtest.Env) { fn(t, newWorld(t, e)) })
}

// onOne is for what does not depend on the engine.
func onOne(t testing.TB, change ...func(*chat.Handler)) *world {
	t.Helper()
	return newWorld(t, dbtest.New(t, dbtest.OnSQLite), change...)
}

func newWorld(t testing.TB, e dbtest.Env, change ...func(*chat.Handler)) *world {
	t.Helper()
	w := &world{Env: e, logs: &logs{}, left: make(chan struct{}, 100)}
	log := slog.New(trace.NewHandler(slog.NewJSONHandler(w.logs, nil)))
	all := wiretest.New(t, e.DB, log)
	wiretest.Offer(t, all, w.look(), w.pay())
	turns := all.Operate.Runner
	turns.Poll, turns.Collects = 20*time.Millisecond, 50*time.Millisecond
	w.Handler = &chat.Handler{
		Runner:  turns,
		Auth:    auth.New(tokens(e.Workspace)),
		Streams: sse.Streams{Every: 10 * time.Millisecond, For: time.Minute},
	}
	for _, c := range change {
		c(w.Handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() {
			select {
			case w.left <- struct{}{}:
			default:
			}
		})
		w.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// limited has the limits of messages apply, on a clock that the caller sets.
func limited(clock func() time.Time) func(*chat.Handler) {
	return limitedTelling(clock, slog.New(slog.DiscardHandler))
}

// limitedTelling is limited with the log of the limits.
func limitedTelling(clock func() time.Time, log *slog.Logger) func(*chat.Handler) {
	return func(h *chat.Handler) {
		store, err := ratelimit.New(h.DB)
		if err != nil {
			panic(err)
		}
		h.Limits = ratelimit.NewCache(store, clock, log)
		h.Failures = ratelimit.NewFailures(ratelimit.BadCredentials, clock)
	}
}

func tokens(ws db.Workspace) auth.Verifier {
	all := map[string]auth.Principal{
		site:   {Kind: auth.Site, ID: "1", Origins: []string{siteOrigin}},
		other:  {Kind: auth.Site, ID: "2", Origins: []string{"https://shop.example"}},
		key:    {Kind: auth.Key, ID: "3", Role: auth.Member, Scopes: []auth.Scope{"chat:write"}},
		reader: {Kind: auth.Key, ID: "4", Role: auth.Member, Scopes: []auth.Scope{"chat:read"}},
		admin:  {Kind: auth.User, ID: "5", Role: auth.Admin},
		agent:  {Kind: auth.Agent, ID: "6"},
	}
	return func(_ context.Context, token string) (auth.Principal, error) {
		p, ok := all[token]
		if !ok {
			return auth.Principal{}, auth.ErrInvalid
		}
		p.Workspace = ws
		return p, nil
	}
}

// look reads something outside; what it is told and what it finds are nobody's but the agent's.
func (w *world) look() skill.Skill {
	return skill.Skill{
		Name: "look_inside", Kind: skill.Builtin, Scope: skill.External, Description: "Looks.", Effect: skill.Read,
		Parameters: json.RawMessage(`{"type":"object","properties":{"where":{"type":"string"}}}`),
		Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
			return map[string]string{"found": "the-inner-result"}, nil
		},
	}
}

func (w *world) pay() skill.Skill {
	return skill.Skill{
		Name: "pay", Kind: skill.Builtin, Scope: skill.External, Description: "Pays.", RequiresApproval: true,
		Parameters: json.RawMessage(`{"type":"object"}`),
		Run: func(context.Context, lane.Tx, skill.Call) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.paid++
			return map[string]string{"receipt": "R-1"}, nil
		},
	}
}

func (w *world) think(t testing.TB, steps ...llmtest.Writing) *llmtest.Writer {
	m := llmtest.Write(t, steps...)
	w.Reason.Model = m
	return m
}

// held is an answer that comes when the test says so.
type held struct{ asked, answer chan struct{} }

func newHeld() held { return held{make(chan struct{}), make(chan struct{})} }

// then writes the first piece, and the others once the test says so.
func (h held) then(first string, others ...string) llmtest.Writing {
	return func(ctx context.Context, _ llm.Request, write func(string)) (llm.Response, error) {
		write(first)
		close(h.asked)
		select {
		case <-h.answer:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return llm.Response{}, ctx.Err()
		}
		for _, o := range others {
			write(o)
		}
		return llmtest.Written(first + strings.Join(others, "")), nil
	}
}

// logs collects the lines of a log.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
}

// request makes one; headers are names and values.
func (w *world) request(t testing.TB, method, path, token, body string, headers ...string) *http.Request {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body)))(t)
	r.Header.Set("Origin", siteOrigin)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (w *world) call(t testing.TB, method, path, token, body string, headers ...string) reply {
	t.Helper()
	got := must(http.DefaultClient.Do(w.request(t, method, path, token, body, headers...)))(t)
	defer got.Body.Close()
	text := must(io.ReadAll(got.Body))(t)
	return reply{got.StatusCode, got.Header, string(text)}
}

// post is a POST of a site's visitor.
func (w *world) post(t testing.TB, path, body string, headers ...string) reply {
	t.Helper()
	return w.call(t, http.MethodPost, path, site, body, headers...)
}

// event is one of a stream.
type event struct{ id, kind, data string }

// streaming is a stream that is being read.
type streaming struct {
	*http.Response
	lines *bufio.Scanner
}

func (w *world) stream(t testing.TB, method, path, body string, headers ...string) *streaming {
	t.Helper()
	got := must(http.DefaultClient.Do(w.request(t, method, path, site, body, headers...)))(t)
	t.Cleanup(func() { _ = got.Body.Close() })
	if got.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(got.Body)
		t.Fatalf("%d %s", got.StatusCode, text)
	}
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	return &streaming{got, lines}
}

// next is the next event; false: the stream has ended.
func (s *streaming) next() (e event, ok bool) {
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "":
			if e.data != "" {
				return e, true
			}
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		}
	}
	return e, false
}

// rest are the events to the end.
func (s *streaming) rest() (all []event) {
	for {
		e, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// spoken is a thread as lines "role: body".
func (w *world) spoken(t testing.TB, id string) []string {
	t.Helper()
	var out []string
	for _, l := range must(w.Threads.Lately(t.Context(), w.Workspace, id, 100))(t) {
		out = append(out, string(l.Role)+": "+l.Body)
	}
	return out
}

// drain sends what is due.
func (w *world) drain(t testing.TB) {
	t.Helper()
	must(w.Sender.Drain(t.Context(), w.Workspace, 20))(t)
}

// until waits until something holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// calls asks for a call, once the test says so.
func (h held) calls(name string) llmtest.Writing {
	return func(ctx context.Context, req llm.Request, write func(string)) (llm.Response, error) {
		close(h.asked)
		<-h.answer
		return llmtest.WritesCalls("", name, `{}`)(ctx, req, write)
	}
}

// greeter is a model that says the same to everyone.
type greeter struct{}

func (greeter) Name() string { return "greeter" }

func (greeter) Generate(ctx context.Context, req llm.Request, told func(llm.Delta)) (llm.Response, error) {
	write := func(text string) {
		if told != nil {
			told(llm.Delta{Text: text})
		}
	}
	return llmtest.Writes("Hello, ", "and ", "welcome.")(ctx, req, write)
}
