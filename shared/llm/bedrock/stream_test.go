package bedrock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// streams fails unless the answer is want and the deltas add up to it.
func (s *server) streams(t *testing.T, want llm.Response) {
	t.Helper()
	var sum sums
	got, err := s.model.Generate(t.Context(), say("go"), sum.add)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer (- want, + got):\n%s", diff)
	}
	if sum.text != got.Text || !slices.Equal(sum.calls, got.Calls) {
		t.Errorf("the deltas add up to %+v", sum)
	}
}

func TestAStreamedAnswer(t *testing.T) {
	s := serve(t, streaming(working()...))
	s.streams(t, worked)
	if r := s.requests()[0]; r.path != "/model/eu.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream" ||
		!strings.HasPrefix(r.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
		t.Errorf("asked %s with %q", r.path, r.Get("Authorization"))
	}
}

// Fragments of interleaved calls are added to their own call.
func TestInterleavedCalls(t *testing.T) {
	s := serve(t, streaming(messageStart(),
		callStart(0, "A", "query_activity"), callStart(1, "B", "save_memory"),
		callInput(1, `{"content":`), callInput(0, `{"limit": 10}`), text(2, "I look twice. ☕"), callInput(1, ` "x"}`),
		blockStop(0), blockStop(1), blockStop(2), messageStop("tool_use"), metadata()))
	want := worked
	want.Calls = slices.Clone(worked.Calls)
	want.Calls[0].ID, want.Calls[1].ID = "A", "B"
	s.streams(t, want)
}

// Arguments arrive as the model wrote them, valid JSON or not.
func TestBrokenArgumentsAreNoError(t *testing.T) {
	for _, arguments := range []string{``, `{"limit": `, `null`, `[1,2]`, `{"a":1}{"b":2}`, "{\"a\":\u0000}"} {
		s := serve(t, streaming(messageStart(), callStart(0, "A", "n"), callInput(0, arguments), blockStop(0), messageStop("max_tokens"), metadata()))
		s.streams(t, llm.Response{
			Message:    llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: "A", Name: "n", Arguments: llm.Arguments(arguments)}}},
			StopReason: llm.StopMaxTokens, Usage: allUsage, Model: model,
		})
	}
}

// Events that later versions of Bedrock may add, and reasoning, are ignored.
func TestUnknownEvents(t *testing.T) {
	s := serve(t, streaming(messageStart(),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"somethingNew":{"text":"hm"}}}`),
		event("contentBlockStart", `{"contentBlockIndex":1,"start":{"somethingNew":{}}}`),
		event("somethingNew", `{"x":1}`),
		text(2, "hi"), messageStop("end_turn"), metadata()))
	s.streams(t, llm.Response{Message: llm.Message{Role: llm.RoleAssistant, Text: "hi"}, StopReason: llm.StopEndTurn, Usage: allUsage, Model: model})
}

// A model that is thinking is not silent.
func TestAThoughtIsAnEmptyDelta(t *testing.T) {
	s := serve(t, streaming(messageStart(), event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`),
		text(1, "hi"), messageStop("end_turn"), metadata()))
	var got []llm.Delta
	if _, err := s.model.Generate(t.Context(), say("go"), func(d llm.Delta) { got = append(got, d) }); err != nil || !slices.Equal(got, []llm.Delta{{}, {Text: "hi"}}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A whole answer may take longer than a pause within a stream: the caller hears that the model is working.
func TestAWholeAnswerTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := through(transport(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if strings.HasSuffix(r.URL.Path, "/converse-stream") {
				refusal(400, "ValidationException", "The model is unsupported for streaming.")(w, r)
			} else {
				time.Sleep(5 * time.Minute)
				whole(answerJSON("end_turn", `{"text":"At last."}`))(w, r)
			}
			return w.Result(), nil
		}), "http://bedrock.test")
		var got sums
		last, longest := time.Now(), time.Duration(0)
		resp, err := m.Generate(t.Context(), say("go"), func(d llm.Delta) {
			longest, last = max(longest, time.Since(last)), time.Now()
			got.add(d)
		})
		if err != nil || resp.Text != "At last." || got.text != "At last." || longest > time.Minute {
			t.Errorf("got %+v and %q, silent for %s: %v", resp, got.text, longest, err)
		}
	})
}

// If a model does not stream, or not with tools, the whole answer is passed on.
func TestAModelThatDoesNotStream(t *testing.T) {
	for _, why := range []string{"This model doesn't support tool use in streaming mode.", "The model is unsupported for streaming."} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/converse-stream") {
				refusal(400, "ValidationException", why)(w, r)
				return
			}
			whole(answerJSON("tool_use", `{"text":"I look."}`, `{"toolUse":{"toolUseId":"A","name":"look","input":{}}}`))(w, r)
		})
		s.streams(t, llm.Response{
			Message:    llm.Message{Role: llm.RoleAssistant, Text: "I look.", Calls: []llm.ToolCall{{ID: "A", Name: "look", Arguments: `{}`}}},
			StopReason: llm.StopToolUse, Usage: allUsage, Model: model,
		})
	}
}

func TestARoutedPromptSaysWhichModelAnswered(t *testing.T) {
	s := serve(t, streaming(text(0, "hi"), messageStop("end_turn"),
		event("metadata", `{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"trace":{"promptRouter":{"invokedModelId":"chosen"}}}`)))
	s.streams(t, llm.Response{
		Message: llm.Message{Role: llm.RoleAssistant, Text: "hi"}, StopReason: llm.StopEndTurn,
		Usage: llm.Usage{PromptTokens: 1, CompletionTokens: 2}, Model: "chosen",
	})
}

// The transport may check the end of the request's body after the answer has begun and the SDK has
// closed the body. That is not a failure to send the request.
func TestTheRequestMayEndAfterTheAnswerBegan(t *testing.T) {
	var body io.ReadCloser
	answer := canned(bytes.NewReader(slices.Concat(working()...)))
	m := through(transport(func(r *http.Request) (*http.Response, error) {
		body = r.Body
		return answer(r)
	}), "http://bedrock.test")
	got, err := m.Generate(t.Context(), say("go"), func(llm.Delta) {})
	if err != nil || !cmp.Equal(got, worked) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Errorf("the body that was sent: %v", err)
	}
}

// One byte at a time.
func TestATrickle(t *testing.T) {
	var pieces [][]byte
	for b := range slices.Chunk(bytes.Join(working(), nil), 1) {
		pieces = append(pieces, b)
	}
	serve(t, streaming(pieces...)).streams(t, worked)
}

// canned answers each request with a body, and ends there.
func canned(body io.Reader) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}, Body: io.NopCloser(body), ContentLength: -1,
		}, nil
	}
}

// A stream that is cut anywhere, within or between events, is a failed answer, unless it is
// complete.
func TestACutStream(t *testing.T) {
	all := bytes.Join(working(), nil)
	for n := range len(all) {
		var sum sums
		_, err := through(canned(bytes.NewReader(all[:n])), "http://bedrock.test").Generate(t.Context(), say("go"), sum.add)
		if llm.ClassOf(err) != llm.ClassUnavailable {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(all), err)
		}
		if !strings.HasPrefix(worked.Text, sum.text) {
			t.Fatalf("cut after %d bytes: streamed %q", n, sum.text)
		}
	}
}

// The connection breaks after an event, and the transport notices it.
func TestABrokenConnection(t *testing.T) {
	all := working()
	for n := range all {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			streaming(all[:n]...)(w, r)
			panic(http.ErrAbortHandler)
		})
		if _, err := s.model.Generate(t.Context(), say("go"), func(llm.Delta) {}); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("broken after %d events: %v", n, err)
		}
	}
}

func TestADamagedStream(t *testing.T) {
	broken := slices.Concat(working()...)
	broken[len(messageStart())+20] ^= 1
	for name, stream := range map[string][]byte{
		"a flipped bit":            broken,
		"HTML":                     []byte("<html><body>Bad gateway, and more of it than the first frame is long</body></html>"),
		"nothing":                  nil,
		"a piece of no call":       slices.Concat(messageStart(), callInput(3, `{}`), messageStop("tool_use"), metadata()),
		"a call that begins twice": slices.Concat(callStart(1, "A", "n"), callStart(1, "B", "n"), messageStop("tool_use"), metadata()),
		"no JSON":                  slices.Concat(messageStart(), event("contentBlockDelta", `{"contentBlockIndex":`), messageStop("end_turn"), metadata()),
		"an empty stop reason":     slices.Concat(messageStop(""), metadata()),
		"no usage":                 slices.Concat(messageStop("end_turn"), event("metadata", `{}`)),
		"a frame of no end":        slices.Concat([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 100)),
	} {
		_, err := through(canned(bytes.NewReader(stream)), "http://bedrock.test").Generate(t.Context(), say("go"), func(llm.Delta) {})
		if llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless is a body that never ends.
type endless struct{ piece []byte }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.piece), nil }

func TestAnEndlessStreamIsGivenUp(t *testing.T) {
	piece := text(0, strings.Repeat("x", 10_000))
	var pieces []io.Reader
	for range 3000 { // 30 MB
		pieces = append(pieces, bytes.NewReader(piece))
	}
	streamed := 0
	_, err := through(canned(io.MultiReader(pieces...)), "http://bedrock.test").Generate(t.Context(), say("go"), func(d llm.Delta) { streamed += len(d.Text) })
	if llm.ClassOf(err) != llm.ClassBadRequest || streamed > 17<<20 {
		t.Errorf("after %d bytes: %v", streamed, err)
	}
	_, err = through(canned(endless{[]byte(" ")}), "http://bedrock.test").Generate(t.Context(), say("go"), nil)
	if llm.ClassOf(err) != llm.ClassBadRequest || !strings.Contains(err.Error(), "the body is too long") {
		t.Errorf("without a stream: %v", err)
	}
}

// Bedrock reports a failure within a stream with exceptions of its own kind.
func TestAnExceptionWithinAStream(t *testing.T) {
	for exception, want := range map[string]llm.ErrorClass{
		"throttlingException":         llm.ClassRateLimit,
		"serviceUnavailableException": llm.ClassUnavailable,
		"internalServerException":     llm.ClassUnavailable,
		"modelStreamErrorException":   llm.ClassUnavailable,
		"validationException":         llm.ClassBadRequest,
		"modelTimeoutException":       llm.ClassTimeout, // the SDK does not expect this one in a stream
		"someNewException":            llm.ClassUnavailable,
	} {
		for n := range working() {
			events := slices.Concat(working()[:n], [][]byte{frame("exception", exception, `{"message":"Too bad."}`)})
			s := serve(t, streaming(events...))
			_, err := s.model.Generate(t.Context(), say("go"), func(llm.Delta) {})
			if llm.ClassOf(err) != want || !strings.Contains(fmt.Sprint(err), "Too bad.") {
				t.Errorf("%s after %d events: %v", exception, n, err)
			}
		}
	}
	s := serve(t, streaming(frame("exception", "validationException", `{"message":"Input is too long for requested model."}`)))
	if _, err := s.model.Generate(t.Context(), say("go"), func(llm.Delta) {}); llm.ClassOf(err) != llm.ClassContextTooLong {
		t.Errorf("too long: %v", err)
	}
}

// When the context of a stream ends, the call returns that soon, however the stream ends.
func TestAStreamEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want llm.ErrorClass
	}{
		"canceled": {context.WithCancel, llm.ClassCanceled},
		"too late": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, llm.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				streaming(working()[:4]...)(w, r)
				<-r.Context().Done()
			})
			ctx, cancel := c.end(t.Context())
			defer cancel()
			_, err := s.model.Generate(ctx, say("go"), func(d llm.Delta) {
				if strings.Contains(d.Text, "twice") && c.want == llm.ClassCanceled {
					cancel()
				}
			})
			if llm.ClassOf(err) != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The listener may cancel, even when the whole answer has arrived.
func TestTheListenerEndsIt(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		heard := 0
		_, err := through(canned(bytes.NewReader(slices.Concat(working()...))), "http://bedrock.test").Generate(ctx, say("go"), func(llm.Delta) {
			heard++
			cancel()
		})
		if llm.ClassOf(err) != llm.ClassCanceled || heard != 1 {
			t.Fatalf("heard %d pieces: %v", heard, err)
		}
	}
}

// Concurrent streams of one client do not mix.
func TestStreamsAtOnce(t *testing.T) {
	s := serve(t, streaming(working()...))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 4 {
				got, err := s.model.Generate(t.Context(), say("go"), func(llm.Delta) {})
				if err != nil || !cmp.Equal(got, worked) {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
