package wire_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

const theKey = `sk-Zm9v/"YmFy+<==_canary`

// body records whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func endpoint(t testing.TB, base string, d wire.Doer) *wire.Endpoint {
	t.Helper()
	u, err := wire.ParseURL(base)
	if err != nil {
		t.Fatal(err)
	}
	e, err := wire.NewEndpoint(wire.Config{
		Provider: "test", URL: u.JoinPath("answers"), HTTP: d, Header: http.Header{"X-Version": {"1"}},
		Key: secret.NewValue(theKey), KeyHeader: "X-Api-Key", KeyPrefix: "Key ",
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// receiver records what it receives. The event "end" is the last.
type receiver struct {
	whole  string
	events []string
	ended  bool
	err    error // its answer to everything

	thoughts int
}

func (r *receiver) Whole(body []byte) error {
	r.whole = string(body)
	return r.err
}

func (r *receiver) Event(e wire.Event) (bool, error) {
	if r.events = append(r.events, string(e.Data)); len(r.events) > 10 {
		r.events = r.events[5:]
	}
	return string(e.Data) == "end", r.err
}

func (r *receiver) Think() { r.thoughts++ }

func (r *receiver) End() error {
	r.ended = true
	return errors.New("cut off")
}

func TestAsk(t *testing.T) {
	s := llmtest.Serve(t, llmtest.JSON(200, `{"a":1}`), llmtest.Events("data: 1\n\n", "data: end\n\n", "data: no more\n\n"))
	e := endpoint(t, s.URL+"/base/?version=2", s.Client())
	var whole, streamed receiver
	if err := e.Ask(t.Context(), []byte(`{"q":1}`), false, &whole); err != nil || whole.whole != `{"a":1}` {
		t.Errorf("got %+v, %v", whole, err)
	}
	if err := e.Ask(t.Context(), []byte(`{"q":2}`), true, &streamed); err != nil || fmt.Sprint(streamed.events) != "[1 end]" || streamed.ended {
		t.Errorf("got %+v, %v", streamed, err)
	}
	for i, accept := range []string{"application/json", "text/event-stream, application/json"} {
		a := s.Asked()[i]
		h := a.Header
		if a.Path != "/base/answers?version=2" || h.Get("X-Api-Key") != "Key "+theKey || h.Get("X-Version") != "1" ||
			h.Get("Content-Type") != "application/json" || h.Get("Accept") != accept || string(a.Body) != fmt.Sprintf(`{"q":%d}`, i+1) {
			t.Errorf("asked %+v", a)
		}
	}
}

// A comment says that the server is still working.
func TestCommentsArePassedOn(t *testing.T) {
	s := llmtest.Serve(t, llmtest.Events(": working\n\n:\n\n", "data: 1\n: and\n\n", "data: end\n\n: no more\n\n"))
	var r receiver
	if err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, true, &r); err != nil || r.thoughts != 3 || fmt.Sprint(r.events) != "[1 end]" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// The form of the answer counts, not the requested form.
func TestAskTakesWhatComes(t *testing.T) {
	for _, test := range []struct {
		media  string
		stream bool
		events bool
	}{
		{"application/json", true, false},
		{"application/json; charset=utf-8", true, false},
		{"text/event-stream", false, true},
		{"text/event-stream;charset=utf-8", false, true},
		{"text/plain", true, true},
		{"", true, true},
		{"text/plain", false, false},
		{"", false, false},
	} {
		s := llmtest.Serve(t, llmtest.Speak(200, llmtest.EndWell, []string{"data: end\n\n"}, "Content-Type", test.media))
		var r receiver
		if err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, test.stream, &r); err != nil || (len(r.events) > 0) != test.events {
			t.Errorf("%+v: got %+v, %v", test, r, err)
		}
	}
	for _, media := range []string{"text/plain; charset=utf-8", ""} { // as a server says that does not think of it
		s := llmtest.Serve(t, llmtest.Speak(200, llmtest.EndWell, []string{`{"a":1}`}, "Content-Type", media))
		var r receiver
		if err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, true, &r); err != nil || r.whole != `{"a":1}` {
			t.Errorf("an object of the type %q: got %+v, %v", media, r, err)
		}
	}
}

func TestBodiesAreClosed(t *testing.T) {
	malformed := errors.New("malformed")
	for name, test := range map[string]struct {
		status int
		media  string
		text   io.Reader
		err    error
		failed bool
	}{
		"whole":        {200, "application/json", strings.NewReader("{}"), nil, false},
		"malformed":    {200, "application/json", strings.NewReader("{}"), malformed, true},
		"an error":     {500, "application/json", strings.NewReader("{}"), nil, true},
		"a redirect":   {302, "text/html", strings.NewReader(""), nil, true},
		"no content":   {204, "", strings.NewReader(""), malformed, true},
		"events":       {200, "text/event-stream", strings.NewReader("data: end\n\n"), nil, false},
		"bad events":   {200, "text/event-stream", strings.NewReader("data: end\n\n"), malformed, true},
		"cut events":   {200, "text/event-stream", strings.NewReader("data: 1\n\n"), nil, true},
		"large events": {200, "text/event-stream", endless("data: xxxxxxxxxx\n"), nil, true},
	} {
		b := &body{Reader: test.text}
		e := endpoint(t, "http://host.invalid", llmtest.Doer(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {test.media}}, Body: b}, nil
		}))
		if err := e.Ask(t.Context(), nil, false, &receiver{err: test.err}); (err != nil) != test.failed || !b.closed {
			t.Errorf("%s: closed %v, %v", name, b.closed, err)
		}
	}
}

// An answer without an end is stopped at a limit, whatever it contains.
func TestAnswersAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hundreds of MiB")
	}
	for name, test := range map[string]struct {
		media string
		text  string
	}{
		"whole":    {"application/json", "x"},
		"events":   {"text/event-stream", "data: " + strings.Repeat("x", 1000) + "\n\n"},
		"comments": {"text/event-stream", ": " + strings.Repeat("x", 1000) + "\n\n"},
		"an event": {"text/event-stream", "data: " + strings.Repeat("x", 1000) + "\n"},
		"a line":   {"text/event-stream", "x"},
	} {
		in := &counting{in: bufio.NewReaderSize(endless(test.text), 1<<16)} // it may return any part of a piece
		e := endpoint(t, "http://host.invalid", llmtest.Doer(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {test.media}}, Body: io.NopCloser(in)}, nil
		}))
		if err := e.Ask(t.Context(), nil, false, &receiver{}); llm.ClassOf(err) != llm.ClassBadRequest || in.n > wire.MaxStream+4096 {
			t.Errorf("%s: %v after %d bytes", name, err, in.n)
		}
	}
}

type counting struct {
	in io.Reader
	n  int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += n
	return n, err
}

func TestUnreached(t *testing.T) {
	refused := llmtest.Serve(t)
	for name, test := range map[string]struct {
		base string
		d    wire.Doer
		want llm.ErrorClass
	}{
		"refused":  {"http://127.0.0.1:1/secret-path?key=value", refused.Client(), llm.ClassUnavailable},
		"too slow": {"http://host.invalid/secret-path", &http.Client{Transport: failing{context.DeadlineExceeded}}, llm.ClassTimeout},
		"what a client says": {"http://host.invalid/secret-path", llmtest.Doer(func(*http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: "http://host.invalid/secret-path", Err: errors.New("no way")}
		}), llm.ClassUnavailable},
	} {
		err := endpoint(t, test.base, test.d).Ask(t.Context(), nil, true, &receiver{})
		if llm.ClassOf(err) != test.want || strings.Contains(err.Error(), "secret-path") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// net/http would send the header with the key to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := llmtest.Serve(t) // any request fails the test
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := llmtest.Serve(t, llmtest.Speak(status, llmtest.EndWell, nil, "Location", elsewhere.URL))
		err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), []byte(`{}`), false, &receiver{})
		if llm.ClassOf(err) != llm.ClassBadRequest {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// A server that sends slowly can't delay the caller beyond the deadline.
func TestSlowTrickle(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := llmtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[stream])
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-r.Context().Done():
					return
				case <-tick.C:
					_, _ = io.WriteString(w, ": x\n\n")
					_ = http.NewResponseController(w).Flush()
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := endpoint(t, s.URL, s.Client()).Ask(ctx, nil, stream, &receiver{})
		cancel()
		if llm.ClassOf(err) != llm.ClassTimeout {
			t.Errorf("stream %v: %v", stream, err)
		}
	}
}

// The key is in no error and no log, whatever a server does with it.
func TestKeyIsNeverTold(t *testing.T) {
	quoted, _ := json.Marshal(theKey)
	forms := []string{
		theKey, strings.Trim(string(quoted), `"`), url.QueryEscape(theKey), url.PathEscape(theKey), base64.StdEncoding.EncodeToString([]byte(theKey)),
		"Key " + theKey, strings.Repeat("x", 480) + theKey,
	}
	for _, form := range forms {
		told, _ := json.Marshal(form)
		for name, turn := range map[string]http.HandlerFunc{
			"message":    llmtest.JSON(401, `{"error":{"message":`+string(told)+`}}`),
			"type":       llmtest.JSON(400, `{"error":{"type":`+string(told)+`,"code":`+string(told)+`}}`),
			"text":       llmtest.Speak(500, llmtest.EndWell, []string{"<p>" + form + "</p>"}, "Content-Type", "text/html"),
			"other JSON": llmtest.JSON(500, `{"headers":{"x-api-key":`+string(told)+`}}`),
			"header":     llmtest.JSON(500, `{}`, "Request-Id", form),
			"location":   llmtest.JSON(302, `{}`, "Location", "http://"+form),
		} {
			s := llmtest.Serve(t, turn)
			e := endpoint(t, s.URL, s.Client())
			err := e.Ask(t.Context(), nil, false, &receiver{})
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			for _, told := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err), fmt.Sprintf("%+v %#v", e, e), fmt.Sprintf("%+v", errors.Unwrap(err))} {
				if strings.Contains(told, "canary") || strings.Contains(told, forms[4]) || strings.Contains(told, "sk-Zm9v") {
					t.Errorf("%s of %s: %s", name, form, told)
				}
			}
		}
		e := endpoint(t, "http://host.invalid", llmtest.Doer(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}))
		if err := e.Ask(t.Context(), nil, false, &receiver{err: errors.New("malformed: " + form)}); strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
	}
}

// A provider's text goes to the log only, and its length is limited.
func TestErrorTextIsBounded(t *testing.T) {
	for _, said := range []string{strings.Repeat("ä", 1<<20), strings.Repeat("\xff", 1000), strings.Repeat("x", 499) + "ä", ""} {
		s := llmtest.Serve(t, llmtest.JSON(500, said, "Request-Id", "req_7"))
		err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, false, &receiver{})
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || len(e.Err.Error()) > wire.MaxText || !utf8.ValidString(e.Err.Error()) || !strings.HasPrefix(err.Error(), "test: unavailable: request req_7: HTTP 500") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNewEndpointChecks(t *testing.T) {
	for _, base := range []string{"", "host", "ftp://host", "http://", "https:///path", "http://user:canary@host", "http://h\x00canary", "://canary"} {
		if u, err := wire.ParseURL(base); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got %v, %v", base, u, err)
		}
	}
	for _, key := range []string{"canary\n", "canary key", "canaryä", "canary\x00"} {
		_, err := wire.NewEndpoint(wire.Config{URL: &url.URL{}, Key: secret.NewValue(key)})
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: got %v", key, err)
		}
	}
}

func TestWithoutAKey(t *testing.T) {
	s := llmtest.Serve(t, llmtest.JSON(200, `{}`))
	u, _ := wire.ParseURL(s.URL)
	e, err := wire.NewEndpoint(wire.Config{URL: u, HTTP: s.Client(), KeyHeader: "Authorization", KeyPrefix: "Bearer "})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ask(t.Context(), nil, false, &receiver{}); err != nil || s.Asked()[0].Header["Authorization"] != nil {
		t.Errorf("%v, asked %v", err, s.Asked()[0].Header)
	}
}
