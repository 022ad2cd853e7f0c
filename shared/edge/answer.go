package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	// streamType says that a body begins with a prelude.
	streamType  = "application/vnd.awslambda.http-integration-response"
	traceHeader = "X-Trace-Id"
)

// head is the beginning of an answer, as all three sorts of events have it.
type head struct {
	Status  int               `json:"statusCode"`
	Headers map[string]string `json:"headers,omitempty"`
	Cookies []string          `json:"cookies,omitempty"`
}

// prelude begins a stream: the head, and eight zero bytes.
func (h head) prelude(w io.Writer) error {
	raw, err := json.Marshal(h)
	if err == nil {
		_, err = w.Write(append(raw, make([]byte, 8)...))
	}
	return err
}

// answer is the writer of one answer. It keeps nothing back: what is written, out has.
type answer struct {
	header http.Header
	call   *call
	status int // 0: not begun
	begin  func(head) error
	out    io.Writer
	err    error // of begin
}

func newAnswer(c *call, out io.Writer, begin func(head) error) *answer {
	return &answer{header: http.Header{}, call: c, begin: begin, out: out}
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter]. There is no way for an informational
// answer.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status = status
	h := head{Status: status, Headers: map[string]string{}, Cookies: a.header.Values("Set-Cookie")}
	for name, values := range a.header {
		h.Headers[name] = strings.Join(values, ", ")
	}
	// Whoever sends it on counts and frames it anew.
	for _, name := range []string{"Set-Cookie", "Content-Length", "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer"} {
		delete(h.Headers, name)
	}
	if to := h.Headers["Location"]; strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		h.Headers["Location"] = a.call.prefix + to
	}
	a.err = a.begin(h)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 && len(a.header["Content-Type"]) == 0 {
		a.header.Set("Content-Type", http.DetectContentType(p))
	}
	a.WriteHeader(http.StatusOK)
	switch {
	case a.err != nil:
		return 0, a.err
	case a.status == http.StatusNoContent, a.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	case a.call.request.Method == http.MethodHead:
		return len(p), nil
	}
	return a.out.Write(p)
}

// FlushError implements what [http.ResponseController] flushes with: only the head
// can be left to send.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	return a.err
}

// SetWriteDeadline implements what [http.ResponseController] sets, of an answer that
// streams.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if s, ok := a.out.(*streaming); ok {
		s.until = t
		return nil
	}
	return http.ErrNotSupported
}

// streaming is the way out of an answer that streams. What is not taken in time ends
// it: whoever writes is not to hang on a caller who does not read.
type streaming struct {
	*io.PipeWriter
	reader *io.PipeReader
	until  time.Time // zero: whenever
}

func (s *streaming) Write(p []byte) (int, error) {
	if !s.until.IsZero() {
		late := time.AfterFunc(time.Until(s.until), func() { _ = s.reader.CloseWithError(os.ErrDeadlineExceeded) }) // never fails
		defer late.Stop()
	}
	return s.PipeWriter.Write(p)
}

// refuse answers with a problem, and nothing that was to stand in the answer but its
// trace.
func (a *answer) refuse(p *problem.Problem) {
	id := trace.ID(a.header.Get(traceHeader))
	clear(a.header)
	a.header.Set("Cache-Control", "no-store")
	if id != "" {
		a.header.Set(traceHeader, string(id))
	}
	p.Write(a, id)
}

func internalProblem(ctx context.Context) *problem.Problem {
	return problem.New(http.StatusInternalServerError, "internal", internal(ctx))
}

// piece is an answer in one piece.
type piece struct {
	head head
	body bytes.Buffer
	over bool
}

var errTooLarge = errors.New("the answer is larger than the 6 MiB that can be sent in one piece: ask for less, or at an address that streams")

func (p *piece) begin(h head) error {
	p.head = h
	return nil
}

// Write keeps what Lambda would take.
func (p *piece) Write(b []byte) (int, error) {
	if p.over = p.over || p.body.Len()+len(b) > maxPayload; p.over {
		return 0, errTooLarge
	}
	return p.body.Write(b)
}

// encode is the answer as API Gateway takes it: what is not text goes as base64.
func (p *piece) encode() ([]byte, error) {
	if p.over {
		return nil, errTooLarge
	}
	out := struct {
		head
		Body   string `json:"body"`
		Base64 bool   `json:"isBase64Encoded,omitempty"`
	}{head: p.head, Body: p.body.String()}
	if !utf8.Valid(p.body.Bytes()) || p.head.Headers["Content-Encoding"] != "" {
		out.Body, out.Base64 = base64.StdEncoding.EncodeToString(p.body.Bytes()), true
	}
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	if raw.Len() > maxPayload {
		return nil, errTooLarge
	}
	return raw.Bytes(), nil
}

// refused is a problem in one piece.
func refused(c *call, id string, pr *problem.Problem) []byte {
	p := new(piece)
	a := newAnswer(c, p, p.begin)
	a.header.Set(traceHeader, id)
	a.refuse(pr)
	raw, _ := p.encode() // it is short
	return raw
}
