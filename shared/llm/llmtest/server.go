package llmtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Server is the fake server of a provider with an HTTP API.
type Server struct {
	URL    string
	client *http.Client

	mu    sync.Mutex
	turns []http.HandlerFunc
	asked []Asked
}

// Asked is a received request.
type Asked struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Serve starts a server that answers its first request with the first turn, its second with the
// second, and so on. A request after the last turn fails the test.
func Serve(t testing.TB, turns ...http.HandlerFunc) *Server {
	s := &Server{turns: turns}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		turn := s.next(Asked{r.URL.RequestURI(), r.Header, body})
		if turn == nil {
			t.Errorf("a request too many: %s %.200s", r.URL, body)
			turn = http.NotFound
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		turn(w, r)
	}))
	transport := &http.Transport{}
	s.URL, s.client = server.URL, &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return s
}

func (s *Server) next(a Asked) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, a)
	if len(s.asked) > len(s.turns) {
		return nil
	}
	return s.turns[len(s.asked)-1]
}

// Client returns a client of the server.
func (s *Server) Client() *http.Client { return s.client }

// Asked returns the requests so far.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// End says how a turn ends.
type End string

// The ways in which a turn ends.
const (
	EndWell  End = "well"  // the HTTP response ends normally
	EndAbort End = "abort" // the connection breaks
	EndHang  End = "hang"  // nothing more comes until the request ends
)

// Speak returns a turn that writes the pieces, flushes each one, and then ends as end says. header
// holds names and values alternately.
func Speak(status int, end End, pieces []string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		flush := http.NewResponseController(w).Flush
		if err := flush(); err != nil {
			panic(fmt.Sprintf("llmtest: %v", err)) // an httptest server always supports Flush
		}
		for _, p := range pieces {
			_, _ = io.WriteString(w, p) // the client may be gone
			_ = flush()
		}
		switch end {
		case EndAbort:
			panic(http.ErrAbortHandler)
		case EndHang:
			<-r.Context().Done()
		}
	}
}

// JSON returns a turn that answers without a stream.
func JSON(status int, body string, header ...string) http.HandlerFunc {
	return Speak(status, EndWell, []string{body}, append([]string{"Content-Type", "application/json"}, header...)...)
}

// Events returns a turn that answers with a stream of server-sent events.
func Events(pieces ...string) http.HandlerFunc {
	return Speak(http.StatusOK, EndWell, pieces, "Content-Type", "text/event-stream; charset=utf-8")
}

// Pieces cuts a text into about n pieces of whole characters.
func Pieces(text string, n int) (pieces []string) {
	size := max(len(text)/max(n, 1), 1)
	start := 0
	for i := range text {
		if i-start >= size {
			pieces = append(pieces, text[start:i])
			start = i
		}
	}
	if start < len(text) {
		pieces = append(pieces, text[start:])
	}
	return pieces
}
