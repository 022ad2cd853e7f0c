package widget_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/surface/chat/widget"
)

// stub speaks the shapes of /api/v1/chat, and says what no product would: hostile answers, streams
// that break where the test wants it, limits on demand.
type stub struct {
	*httptest.Server

	mu sync.Mutex // guards what follows
	// talk answers a message whose execution is written down; nil: it is repeated.
	talk func(c *call)
	// resumed answers who comes back to an execution behind an event; nil: there is none.
	resumed func(c *call, last string)
	// refuse answers the nth message instead of taking it, and says that it did; nil: it never does.
	refuse func(w http.ResponseWriter, n int) bool

	keys     []string // of the messages that came, each once
	taken    []string // those of them whose message is in the history
	sessions []string
	threads  map[string][]spoken
	wrong    []string
}

type spoken struct {
	ID          string `json:"id"`
	Role        string `json:"role"`
	Body        string `json:"body"`
	ExecutionID string `json:"executionId"`
	CreatedAt   string `json:"createdAt"`
}

// call is a request that is answered with a stream.
type call struct {
	*stub
	w                          http.ResponseWriter
	gone                       <-chan struct{} // closed when the caller leaves
	message, thread, execution string
}

func newStub(t *testing.T) *stub {
	s := &stub{threads: map[string][]spoken{}}
	mux := http.NewServeMux()
	pages := keyed()
	mux.Handle("GET /chat/", pages)
	mux.Handle("GET /chat-demo", pages)
	mux.HandleFunc("POST /api/v1/chat/messages", s.post)
	mux.HandleFunc("POST /api/v1/chat/{thread}/messages", s.post)
	mux.HandleFunc("GET /api/v1/chat/{thread}/messages", s.history)
	mux.HandleFunc("GET /api/v1/chat/{thread}/executions/{execution}/events", s.events)
	s.Server = httptest.NewServer(s.across(mux))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for _, wrong := range s.wrong {
			t.Error(wrong)
		}
	})
	return s
}

// across answers requests of other origins as the product must.
func (s *stub) across(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && strings.HasPrefix(r.URL.Path, "/api/") {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", "X-Thread-Id, X-Execution-Id, Retry-After")
			if r.Method == http.MethodOptions {
				w.Header().Set("Access-Control-Allow-Headers",
					"Authorization, X-Session-Id, Content-Type, Last-Event-ID, Idempotency-Key")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// talks, resumes and refuses say what happens from now on.
func (s *stub) talks(fn func(*call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talk = fn
}

func (s *stub) resumes(fn func(c *call, last string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed = fn
}

func (s *stub) refuses(fn func(w http.ResponseWriter, n int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = fn
}

// known checks who asks, and for what.
func (s *stub) known(r *http.Request) bool {
	session := r.Header.Get("X-Session-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+demoKey || len(session) != 32 || r.Header.Get("Cookie") != "" ||
		r.Method == http.MethodPost && len(r.Header.Get("Idempotency-Key")) != 32 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s %s with %v", r.Method, r.URL, r.Header))
		return false
	}
	if !slices.Contains(s.sessions, session) {
		s.sessions = append(s.sessions, session)
	}
	return true
}

// threadOf is the one thread of a visitor.
func threadOf(r *http.Request) string { return "thread-of-" + r.Header.Get("X-Session-Id") }

func (s *stub) post(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Message string
		Stream  bool
	}
	thread, given := threadOf(r), r.PathValue("thread")
	if !s.known(r) || json.NewDecoder(r.Body).Decode(&in) != nil || !in.Stream || given != "" && given != thread {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	if !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
	}
	n, again := slices.Index(s.keys, key)+1, slices.Contains(s.taken, key)
	refuse, talk := s.refuse, s.talk
	s.mu.Unlock()
	if refuse != nil && refuse(w, n) {
		return
	}
	c := &call{s, w, r.Context().Done(), in.Message, thread, fmt.Sprintf("execution-%d", n)}
	if !again {
		c.says("user", in.Message)
		s.mu.Lock()
		s.taken = append(s.taken, key)
		s.mu.Unlock()
	}
	if talk != nil {
		talk(c)
		return
	}
	c.begin()
	c.delta("1.1.00000000", "You said: ")
	c.delta("1.2.00000000", in.Message)
	c.finish("1.2.00000000", "You said: "+in.Message)
}

func (s *stub) history(w http.ResponseWriter, r *http.Request) {
	thread := r.PathValue("thread")
	if !s.known(r) || thread != threadOf(r) {
		http.Error(w, `{"code": "not_found"}`, http.StatusNotFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"items": append([]spoken{}, s.threads[thread]...), "nextCursor": nil})
}

func (s *stub) events(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	resumed := s.resumed
	s.mu.Unlock()
	if !s.known(r) || r.PathValue("thread") != threadOf(r) || resumed == nil {
		http.Error(w, `{"code": "not_found"}`, http.StatusNotFound)
		return
	}
	c := &call{s, w, r.Context().Done(), "", r.PathValue("thread"), r.PathValue("execution")}
	resumed(c, r.Header.Get("Last-Event-ID"))
}

// says adds to the history of the call's thread.
func (c *call) says(role, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.threads[c.thread] = append(c.threads[c.thread], spoken{
		fmt.Sprintf("%s-%d", c.thread, len(c.threads[c.thread])), role, body, c.execution, "2026-11-23T06:00:00Z",
	})
}

func (c *call) begin() {
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Thread-Id", c.thread)
	c.w.Header().Set("X-Execution-Id", c.execution)
	c.write("retry: 2000\n\n: still here\n\n")
}

func (c *call) write(text string) {
	_, _ = c.w.Write([]byte(text)) // the caller may have left
	_ = http.NewResponseController(c.w).Flush()
}

func (c *call) event(id, kind string, data map[string]any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	c.write("id: " + id + "\nevent: " + kind + "\ndata: " + string(text) + "\n\n")
}

func (c *call) delta(id, text string) { c.event(id, "delta", map[string]any{"text": text}) }

// finish writes the answer into the history, and ends the stream with it.
func (c *call) finish(id, answer string) {
	c.says("assistant", answer)
	c.done(id, "completed", answer)
}

func (c *call) done(id, status, answer string) {
	c.event(id, "done", map[string]any{
		"answer": answer, "status": status, "executionId": c.execution, "threadId": c.thread,
	})
}

// wait waits until the test says so, or the caller leaves.
func (c *call) wait(until <-chan struct{}) {
	select {
	case <-until:
	case <-c.gone:
	}
}

// cut breaks the connection in the middle of the answer.
func (c *call) cut() { panic(http.ErrAbortHandler) }

// messages is how many messages came, however often the browser sent one.
func (s *stub) messages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// visitors is how many visitors were named.
func (s *stub) visitors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// bodies is all that was said, in all threads.
func (s *stub) bodies() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, thread := range slices.Sorted(maps.Keys(s.threads)) {
		for _, m := range s.threads[thread] {
			all = append(all, m.Role+": "+m.Body)
		}
	}
	return all
}

// limited refuses with a limit.
func limited(w http.ResponseWriter, code string, after string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write([]byte(`{"status": 429, "code": "` + code + `"}`))
}

var _ http.Handler = (*widget.Handler)(nil)
