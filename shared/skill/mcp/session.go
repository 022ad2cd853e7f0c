package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/skill/remote"
)

const (
	// farewell limits each request that is not the call's: an answer to the server's own question, the
	// notification that the call is cancelled, and the end of the session.
	farewell = 500 * time.Millisecond
	// linger limits the wait for the end of a stream whose answer has been read. A stream that has ended
	// leaves its connection to the next message.
	linger = 50 * time.Millisecond
	// maxStream is the limit of bytes read of one answer: the longest result plus what the protocol
	// adds around it.
	maxStream = remote.MaxAnswer + 64<<10
)

// sessionless is the version of the protocol without sessions: each request says who sends it.
const sessionless = "2026-07-28"

// withSessions lists the older versions, the newest first. It is the one that a session is asked for with.
var withSessions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Codes of errors of JSON-RPC.
const (
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

// rpcError is an error that the server answered.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// message is what is sent: a request, a notification without an ID, or an answer.
type message struct {
	Version string         `json:"jsonrpc"`
	ID      any            `json:"id,omitempty"`
	Method  string         `json:"method,omitempty"`
	Params  map[string]any `json:"params,omitempty"`
	Result  any            `json:"result,omitempty"`
	Error   *rpcError      `json:"error,omitempty"`
}

// reply is what comes back: an answer, or a request or notification of the server.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// session is one conversation with a server over streamable HTTP. It is not safe for concurrent use.
type session struct {
	by      *http.Client
	url     string
	headers http.Header // of the skill; they win
	version string      // of the protocol; empty until it is agreed
	id      string      // empty if the server gave none
	calls   int         // the ID of the last request
	sight   sight       // of the last request or notification
}

// sight records what happened to one message.
type sight struct {
	err    error // of the transport
	status int   // of the answer; 0: none came
	header http.Header
	left   func() bool // nil: the message was never tried
}

// mayHaveLeft reports whether the message may have reached the server.
func (s sight) mayHaveLeft() bool { return s.left != nil && s.left() }

// isRefused reports whether the answer's status is not 2xx.
func (s sight) isRefused() bool { return s.status != 0 && s.status/100 != 2 }

func newSession(by *http.Client, url string, headers http.Header) *session {
	c := *by
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &session{by: &c, url: url, headers: headers}
}

// open agrees on a version of the protocol. A server that knows no version without sessions opens one.
func (s *session) open(ctx context.Context) error {
	s.version = sessionless
	var found struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	if err := s.call(ctx, "server/discover", map[string]any{"_meta": map[string]any{}}, &found); err == nil && slices.Contains(found.SupportedVersions, sessionless) {
		return nil
	}
	s.version = ""
	var agreed struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	err := s.call(ctx, "initialize", map[string]any{"protocolVersion": withSessions[0], "clientInfo": self, "capabilities": nothing}, &agreed)
	if err != nil {
		return err
	}
	if !slices.Contains(withSessions, agreed.ProtocolVersion) {
		return fmt.Errorf("the server speaks version %q of the protocol", agreed.ProtocolVersion)
	}
	s.version = agreed.ProtocolVersion
	s.sight = sight{}
	resp, err := s.post(ctx, message{Method: "notifications/initialized"}, &s.sight)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if s.sight.isRefused() {
		return fmt.Errorf("the server answered %d", s.sight.status)
	}
	return nil
}

// self and nothing are who sends a message and what it offers to the server.
var (
	self    = map[string]string{"name": "lanekeeper", "version": "1"}
	nothing = struct{}{}
)

// call sends a request, waits for its answer and decodes the result into result. An error of the server
// is a [rpcError]. Without sessions, params have a _meta.
func (s *session) call(ctx context.Context, method string, params map[string]any, result any) error {
	if s.version == sessionless {
		meta := params["_meta"].(map[string]any)
		meta["io.modelcontextprotocol/protocolVersion"] = s.version
		meta["io.modelcontextprotocol/clientInfo"] = self
		meta["io.modelcontextprotocol/clientCapabilities"] = nothing
	}
	s.calls++
	s.sight = sight{}
	within, end := context.WithCancel(ctx)
	defer end()
	resp, err := s.post(within, message{ID: s.calls, Method: method, Params: params}, &s.sight)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if s.id == "" {
		s.id = resp.Header.Get("Mcp-Session-Id")
	}
	r, err := s.read(ctx, resp)
	switch {
	case err != nil:
		return err
	case r.Error != nil:
		return r.Error
	}
	late := time.AfterFunc(linger, end)
	defer late.Stop()
	_, _ = io.Copy(io.Discard, resp.Body)
	return json.Unmarshal(r.Result, result)
}

// read reads the answer to the last request.
func (s *session) read(ctx context.Context, resp *http.Response) (reply, error) {
	body := http.MaxBytesReader(nil, resp.Body, maxStream)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if s.sight.isRefused() || media == "application/json" {
		var r reply
		raw, err := io.ReadAll(body)
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		switch {
		case s.sight.isRefused() && r.Error == nil:
			return r, fmt.Errorf("the server answered %d", resp.StatusCode)
		case err == nil && !s.sight.isRefused() && !s.isAnswer(r):
			return r, errors.New("the server answered something else")
		}
		return r, err
	}
	if media != "text/event-stream" {
		return reply{}, fmt.Errorf("the server answered in %q", media)
	}
	for events := wire.NewReader(body, maxStream); ; {
		e, err := events.Next()
		if err != nil {
			return reply{}, fmt.Errorf("the stream ended before the answer: %w", err)
		}
		if e.Type != "" && e.Type != "message" {
			continue
		}
		var r reply
		if err := json.Unmarshal(e.Data, &r); err != nil {
			return r, fmt.Errorf("an event of the server: %w", err)
		}
		switch {
		case s.isAnswer(r):
			return r, nil
		case ctx.Err() != nil: // events that arrived before would delay the error
			return reply{}, ctx.Err()
		case r.Method != "" && r.ID != nil:
			s.answer(ctx, r)
		}
	}
}

func (s *session) isAnswer(r reply) bool {
	return string(r.ID) == strconv.Itoa(s.calls) && r.Method == "" && (r.Error != nil || r.Result != nil)
}

// answer answers a request of the server. It may ask whether the client is there, and nothing else.
func (s *session) answer(ctx context.Context, asked reply) {
	m := message{ID: asked.ID, Result: nothing}
	if asked.Method != "ping" {
		m.Result, m.Error = nil, &rpcError{codeMethodNotFound, "the client offers nothing"}
	}
	s.tell(ctx, m)
}

// cancelled tells the server that nobody waits for the last request. Without sessions, the end of the
// request says so.
func (s *session) cancelled(ctx context.Context) {
	if s.version != sessionless {
		s.tell(ctx, message{Method: "notifications/cancelled", Params: map[string]any{"requestId": s.calls, "reason": "out of time"}})
	}
}

// close ends the session, if there is one.
func (s *session) close(ctx context.Context) {
	if s.id == "" {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer end()
	if resp, err := s.do(ctx, http.MethodDelete, nil, nil); err == nil {
		_ = resp.Body.Close()
	}
}

// tell sends a message that has no answer, also when the call's time is over. It does not mind whether the
// message arrives.
func (s *session) tell(ctx context.Context, m message) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer end()
	if resp, err := s.post(ctx, m, &sight{}); err == nil {
		_ = resp.Body.Close()
	}
}

func (s *session) post(ctx context.Context, m message, seen *sight) (*http.Response, error) {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if s.version == sessionless {
		header.Set("Mcp-Method", m.Method)
		if name, ok := m.Params["name"].(string); ok {
			header.Set("Mcp-Name", name)
		}
	}
	ctx, seen.left = skill.Watch(ctx)
	resp, err := s.do(ctx, http.MethodPost, header, body)
	if err != nil {
		seen.err = err
		return nil, err
	}
	seen.status, seen.header = resp.StatusCode, resp.Header
	return resp, nil
}

// do sends a request with the headers of the session and of the skill.
func (s *session) do(ctx context.Context, method string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header
	}
	if s.version != "" {
		req.Header.Set("Mcp-Protocol-Version", s.version)
	}
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
	}
	maps.Copy(req.Header, s.headers)
	return s.by.Do(req)
}
