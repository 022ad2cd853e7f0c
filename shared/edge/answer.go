package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

const (
	// streamType is the content type of a body that begins with a prelude.
	streamType  = "application/vnd.awslambda.http-integration-response"
	traceHeader = "X-Trace-Id"
)

// head is the status line and the headers of a response, in the form that all three kinds of events
// expect.
type head struct {
	Status  int               `json:"statusCode"`
	Headers map[string]string `json:"headers,omitempty"`
	Cookies []string          `json:"cookies,omitempty"`
}

// prelude writes the beginning of a stream: the head as JSON, then eight zero bytes.
func (h head) prelude(w io.Writer) error {
	raw, err := json.Marshal(h)
	if err == nil {
		_, err = w.Write(append(raw, make([]byte, 8)...))
	}
	return err
}

// answer is the [http.ResponseWriter] of one response. It does not buffer: Write passes its bytes to
// out at once.
type answer struct {
	header http.Header
	call   *call
	status int // 0: the head is not sent yet
	begin  func(head) error
	out    io.Writer
	err    error // of begin
}

func newAnswer(c *call, out io.Writer, begin func(head) error) *answer {
	return &answer{header: http.Header{}, call: c, begin: begin, out: out}
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter]. It ignores informational statuses (1xx), which
// Lambda cannot send.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status = status
	h := head{Status: status, Headers: map[string]string{}, Cookies: a.header.Values("Set-Cookie")}
	for name, values := range a.header {
		h.Headers[name] = strings.Join(values, ", ")
	}
	// API Gateway and function URLs set these headers themselves.
	for _, name := range []string{"Set-Cookie", "Content-Length", "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer"} {
		delete(h.Headers, name)
	}
	if to := h.Headers["Location"]; to != "" {
		h.Headers["Location"] = a.call.location(to)
	}
	a.err = a.begin(h)
}

// location returns the Location of a response as clients must see it, below the stage. A relative one is completed:
// browsers would resolve it beside the stage where the URL is that of the stage alone, without a slash at its end.
func (c *call) location(to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil || c.prefix == "" || u.Scheme != "" || u.Host != "":
		return to
	case strings.HasPrefix(to, "/"):
		return c.prefix + to
	}
	at := c.request.URL.EscapedPath()
	return c.prefix + at[:strings.LastIndexByte(at, '/')+1] + to
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

// FlushError implements flushing for [http.ResponseController]. It sends the head if that is not sent
// yet; there is nothing else to flush.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	return a.err
}

// SetWriteDeadline implements the write deadline of [http.ResponseController] for a response that
// streams. Any other response returns [http.ErrNotSupported].
func (a *answer) SetWriteDeadline(t time.Time) error {
	if s, ok := a.out.(*streaming); ok {
		s.until = t
		return nil
	}
	return http.ErrNotSupported
}

// streaming writes a response that streams. A write that the client does not read before the deadline
// ends the stream, so that a client which stops reading cannot block the handler.
type streaming struct {
	*io.PipeWriter
	reader *io.PipeReader
	until  time.Time // write deadline; zero: none
}

func (s *streaming) Write(p []byte) (int, error) {
	if !s.until.IsZero() {
		late := time.AfterFunc(time.Until(s.until), func() { _ = s.reader.CloseWithError(os.ErrDeadlineExceeded) }) // never fails
		defer late.Stop()
	}
	return s.PipeWriter.Write(p)
}

// refuse answers with a problem. It drops all headers that were set before, except the trace id.
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

// piece buffers a response that is sent as a whole.
type piece struct {
	head head
	body bytes.Buffer
	over bool
}

var errTooLarge = errors.New("the answer is larger than the 6 MiB that can be sent in one piece: ask for less, or at an " +
	"address that streams")

func (p *piece) begin(h head) error {
	p.head = h
	return nil
}

// Write buffers up to maxPayload bytes, the largest response that Lambda accepts.
func (p *piece) Write(b []byte) (int, error) {
	if p.over = p.over || p.body.Len()+len(b) > maxPayload; p.over {
		return 0, errTooLarge
	}
	return p.body.Write(b)
}

// encode returns the response as JSON for API Gateway. A body that is not UTF-8 text is encoded as
// base64.
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

// refused returns a whole response that holds a problem.
func refused(c *call, id string, pr *problem.Problem) []byte {
	p := new(piece)
	a := newAnswer(c, p, p.begin)
	a.header.Set(traceHeader, id)
	a.refuse(pr)
	raw, _ := p.encode() // it is short
	return raw
}
