package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// Play returns a turn in the form of a provider: whole, or the pieces of a stream of media type kind where one
// is asked for. broken is the event with a retryable error.
func (turn Turn) Play(whole string, pieces []string, kind, broken string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			panic(err)
		}
		pieces, kind := pieces, kind
		if !in.Stream {
			pieces, kind = []string{whole}, "application/json"
		}
		if turn.Break {
			pieces = append(pieces[:len(pieces)/2:len(pieces)/2], broken)
		}
		end := EndWell
		if turn.Cut || turn.Hang {
			all := strings.Join(pieces, "")
			pieces = Pieces(all[:len(all)/2], 5)
			if end = EndAbort; turn.Hang {
				end = EndHang
			}
		}
		Speak(http.StatusOK, end, pieces, "Content-Type", kind)(w, r)
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

// Doer answers within the test.
type Doer func(*http.Request) (*http.Response, error)

// Do calls d.
func (d Doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// Answering answers every request with the content of in, as media type kind.
func Answering(kind string, in io.Reader) Doer {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(in)}, nil
	}
}

// Stride is 1, so that every byte is tested, and more in a short run.
func Stride() int {
	if testing.Short() {
		return 17
	}
	return 1
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
