package edge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// answered is a response as the client receives it.
type answered struct {
	head
	Body   string `json:"body"`
	Base64 bool   `json:"isBase64Encoded"`
	cut    error  // the error that ended the stream
}

// serving makes a handler serve the events of a sandbox.
func serving(s *Sandbox, h http.HandlerFunc) func(context.Context, json.RawMessage) (io.Reader, error) {
	return s.web(func(*app.Core) (http.Handler, error) { return h, nil })
}

// ask handles an event and its response like the Lambda library and API Gateway.
func ask(t *testing.T, event string, serve func(context.Context, json.RawMessage) (io.Reader, error)) answered {
	t.Helper()
	out, err := serve(invocation(t), json.RawMessage(event))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, out)
}

func read(t *testing.T, out io.Reader) (a answered) {
	t.Helper()
	r, ok := out.(*reply)
	if !ok {
		t.Fatalf("a reply is %T", out)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if r.kind != streamType {
		if err := json.Unmarshal(raw, &a); err != nil || r.kind != "application/json" {
			t.Fatalf("%s: %v", r.kind, err)
		}
		if a.Base64 {
			raw, err := base64.StdEncoding.DecodeString(a.Body)
			if err != nil {
				t.Fatal(err)
			}
			a.Body = string(raw)
		}
		return a
	}
	prelude, body, ok := bytes.Cut(raw, make([]byte, 8))
	if !ok || json.Unmarshal(prelude, &a.head) != nil {
		t.Fatalf("a stream begins with %q", prelude)
	}
	a.Body, a.cut = string(body), err
	return a
}

// shapes are the kinds of HTTP events.
var shapes = map[string]string{"REST API": restEvent, "function URL": urlEvent, "HTTP API": httpAPI}

func TestAnswers(t *testing.T) {
	binary := string([]byte{0, 0xff, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    answered
	}{
		"text": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, "<ä>")
				_, _ = io.WriteString(w, " & more")
			},
			answered{head: head{200, map[string]string{"Content-Type": "text/plain"}, nil}, Body: "<ä> & more"},
		},
		"binary": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "image/png")
				_, _ = io.WriteString(w, binary)
			},
			answered{head: head{200, map[string]string{"Content-Type": "image/png"}, nil}, Body: binary},
		},
		"no type": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			answered{head: head{200, map[string]string{"Content-Type": "text/html; charset=utf-8"}, nil}, Body: "<html>"},
		},
		"cookies and several values": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Vary"] = []string{"Accept", "Origin"}
				w.Header().Set("Content-Length", "2")
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
				http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusCreated)
				w.WriteHeader(http.StatusTeapot)
				w.Header().Set("Late", "is ignored")
			},
			answered{head: head{201, map[string]string{"Vary": "Accept, Origin"}, []string{"a=1", "b=2"}}},
		},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, answered{head: head{Status: 200}}},
		"no content": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
				_, _ = io.WriteString(w, "x")
			},
			answered{head: head{Status: 204}},
		},
	} {
		for shape, event := range shapes {
			t.Run(name+", "+shape, func(t *testing.T) {
				s, _ := sandbox(t, nowhere)
				got := ask(t, event, serving(s, c.handler))
				if diff := cmp.Diff(c.want.head, got.head, sameIfEmpty); diff != "" {
					t.Error(diff)
				}
				if got.Body != c.want.Body || got.cut != nil {
					t.Errorf("body %q, cut %v", got.Body, got.cut)
				}
			})
		}
	}
}

var sameIfEmpty = cmp.Transformer("filled", func(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
})

func TestHeadHasNoBody(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	got := ask(t, strings.Replace(restEvent, "GET", "HEAD", 1), serving(s, func(w http.ResponseWriter, _ *http.Request) {
		if n, err := io.WriteString(w, "hello"); n != 5 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}))
	if got.Status != 200 || got.Body != "" {
		t.Errorf("answered %+v", got)
	}
}

// A Location leads to our path although the URL has the stage as a prefix.
func TestLocationHasTheStage(t *testing.T) {
	for to, want := range map[string]string{"/api/v1/x": "/live/api/v1/x", "//elsewhere/x": "//elsewhere/x", "https://e.example/x": "https://e.example/x"} {
		s, _ := sandbox(t, nowhere)
		got := ask(t, restEvent, serving(s, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", to) }))
		if got.Headers["Location"] != want {
			t.Errorf("%s became %s", to, got.Headers["Location"])
		}
	}
}

// A Location that is relative leads to the same place from the address of the stage alone, /live, as from /live/: a
// browser would look for it beside /live.
func TestARelativeLocationHasTheStage(t *testing.T) {
	for _, c := range []struct{ at, whole, to, want string }{
		{"/", "/live", "engine/overview", "/live/engine/overview"},
		{"/", "/live/", "docs", "/live/docs"},
		{"/engine/", "/live/engine/", "overview", "/live/engine/overview"},
		{"/engine", "/live/engine", "engine/overview?a=b#c", "/live/engine/overview?a=b#c"},
		{"/engine", "/live/engine", "https://e.example/x", "https://e.example/x"},
		{"/engine", "/engine", "engine/overview", "engine/overview"}, // of a custom domain
	} {
		s, _ := sandbox(t, nowhere)
		event := with(t, restEvent, `{"path":"`+c.at+`","requestContext":{"stage":"live","path":"`+c.whole+`"}}`)
		got := ask(t, string(event), serving(s, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", c.to) }))
		if got.Headers["Location"] != c.want {
			t.Errorf("at %s, %s became %s", c.whole, c.to, got.Headers["Location"])
		}
	}
}

// A write is sent at once, before the response has ended.
func TestFlushIsReal(t *testing.T) {
	for _, event := range []string{restEvent, urlEvent} {
		s, _ := sandbox(t, nowhere)
		proceed := make(chan struct{})
		out, err := serving(s, func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
			<-proceed
			_, _ = io.WriteString(w, "data: 1\n\n")
			<-proceed
			_, _ = io.WriteString(w, "data: 2\n\n")
		})(invocation(t), json.RawMessage(event))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		if n, err := out.Read(buf); err != nil || !bytes.HasSuffix(buf[:n], make([]byte, 8)) {
			t.Fatalf("flushed %q, %v", buf[:n], err)
		}
		for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
			proceed <- struct{}{}
			if n, err := out.Read(buf); err != nil || string(buf[:n]) != want {
				t.Fatalf("read %q, %v", buf[:n], err)
			}
		}
		if err := out.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPanics(t *testing.T) {
	id := string(trace.NewSource(time.Now, rand.Reader).New(trace.Operate))
	for shape, event := range shapes {
		for _, thrown := range []any{"hunter2", http.ErrAbortHandler} {
			for _, begun := range []bool{false, true} {
				s, log := sandbox(t, nowhere)
				serve := serving(s, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set(traceHeader, id)
					w.Header().Set("Set-Cookie", "a=1")
					if begun {
						_, _ = io.WriteString(w, "half")
					}
					panic(thrown)
				})
				got := ask(t, event, serve)
				if begun && shape != "HTTP API" {
					f, ok := errors.AsType[failure](got.cut)
					if !ok || f.Type != "Panic" || strings.Contains(f.Message, "hunter2") || got.Body != "half" {
						t.Errorf("%s: %+v", shape, got)
					}
				} else {
					var p problem.Problem
					if err := json.Unmarshal([]byte(got.Body), &p); err != nil || p.Code != "internal" || p.Status != 500 || got.Status != 500 ||
						got.Headers["Content-Type"] != "application/problem+json" || got.Cookies != nil || string(p.Trace) != id || strings.Contains(got.Body, "hunter2") {
						t.Errorf("%s: %+v", shape, got)
					}
				}
				want := 1
				if thrown == any(http.ErrAbortHandler) {
					want = 0 // the code that throws it has logged the reason
				}
				if n := strings.Count(log.String(), "request panicked"); n != want || n == 1 &&
					!(strings.Contains(log.String(), "http_test.go") && strings.Contains(log.String(), `"trace_id":"`+id)) {
					t.Errorf("%s: logged %d times: %s", shape, n, log)
				}
			}
		}
	}
}

func TestAnswerThatIsTooLargeForOnePiece(t *testing.T) {
	for _, body := range []string{strings.Repeat("x", maxPayload+1), strings.Repeat("\xff", maxPayload/4*3), strings.Repeat("\n", maxPayload/2)} {
		handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
		s, log := sandbox(t, nowhere)
		if got := ask(t, httpAPI, serving(s, handler)); got.Status != 500 || !strings.Contains(got.Body, "answer_too_large") || !strings.Contains(log.String(), "6 MiB") {
			t.Errorf("%d bytes: %.200q", len(body), got.Body)
		}
		if got := ask(t, urlEvent, serving(s, handler)); got.Body != body {
			t.Errorf("a stream has %d bytes of %d", len(got.Body), len(body))
		}
	}
}

func TestEventThatIsNoRequestIsAFunctionError(t *testing.T) {
	s, log := sandbox(t, nowhere)
	_, err := serving(s, nil)(invocation(t), json.RawMessage(`{}`))
	if f, ok := errors.AsType[failure](err); !ok || f.Type != "InvalidEvent" || !strings.Contains(log.String(), "no request by") {
		t.Errorf("%v", err)
	}
}

// The reason why a sandbox cannot serve is in its log, and not in the response.
func TestWhatCanNotBeServed(t *testing.T) {
	s, log := sandbox(t, nowhere, "STATE_BACKEND=sqlite")
	got := ask(t, restEvent, serving(s, nil))
	if got.Status != 503 || !strings.Contains(got.Body, `"code":"unavailable"`) || strings.Contains(got.Body, "STATE_BACKEND") || !strings.Contains(got.Body, "request-1") {
		t.Errorf("answered %+v", got)
	}
	if !strings.Contains(log.String(), "STATE_BACKEND") {
		t.Errorf("the log is %s", log)
	}
}

func TestDeadlineLeavesTimeToAnswer(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	end := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(invocation(t), end)
	defer cancel()
	out, err := serving(s, func(_ http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Deadline(); !ok || end.Sub(at) != reserve {
			t.Errorf("the request ends %v before the invocation, %v", end.Sub(at), ok)
		}
	})(ctx, json.RawMessage(urlEvent))
	if err != nil {
		t.Fatal(err)
	}
	read(t, out)
}

// A caller that disconnects ends the request. The invocation continues until the handler has
// noticed.
func TestCallerThatLeaves(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	ended := false
	out, err := serving(s, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, err := io.WriteString(w, "late")
		ended = errors.Is(err, io.ErrClosedPipe)
	})(invocation(t), json.RawMessage(restEvent))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	if err := out.(io.Closer).Close(); err != nil || !ended {
		t.Errorf("closed with %v; the handler had ended: %v", err, ended)
	}
}

// A caller that does not read does not block the handler.
func TestCallerThatDoesNotRead(t *testing.T) {
	s, _ := sandbox(t, nowhere)
	failed := make(chan error, 1)
	out, err := serving(s, func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := io.WriteString(w, "x")
		failed <- err
	})(invocation(t), json.RawMessage(urlEvent))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := out.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
}

// The response is sent before the background work, and that work is done before the invocation
// ends.
func TestBackground(t *testing.T) {
	for _, event := range shapes {
		s, log := sandbox(t, nowhere)
		proceed, did := make(chan struct{}), false
		out, err := serving(s, func(w http.ResponseWriter, _ *http.Request) {
			s.Background(func(ctx context.Context) {
				<-proceed
				did = ctx.Err() == nil
				panic("and falls")
			})
			w.WriteHeader(http.StatusAccepted)
		})(invocation(t), json.RawMessage(event))
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := io.ReadAll(out); err != nil || !bytes.Contains(raw, []byte("202")) {
			t.Errorf("answered %q, %v", raw, err)
		}
		close(proceed)
		if err := out.(io.Closer).Close(); err != nil || !did || !strings.Contains(log.String(), "background work panicked") {
			t.Errorf("closed with %v; done: %v", err, did)
		}
	}
}
