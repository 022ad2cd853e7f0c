package bedrock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const model = "eu.anthropic.claude-sonnet-4-20250514-v1:0"

// keys are credentials for a server that does not check them.
var keys = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "the-secret-key"}, nil
})

// transport answers requests within the test.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

// sdk returns the configuration of an SDK that sends its requests through c.
func sdk(c aws.HTTPClient, url string) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{Region: "eu-central-1", Credentials: keys, HTTPClient: c, BaseEndpoint: aws.String(url)}, nil
	}
}

// through returns a model whose SDK sends its requests through c.
func through(c aws.HTTPClient, url string) *bedrock.Model {
	return bedrock.New(bedrock.Config{Model: model, AWS: sdk(c, url)})
}

// server answers like Bedrock and records the requests.
type server struct {
	*httptest.Server
	model *bedrock.Model
	aws   func(context.Context) (aws.Config, error)

	mu    sync.Mutex
	asked []asked
}

type asked struct {
	path string
	body []byte
	http.Header
}

// serve starts a server and creates a model that uses it.
func serve(t testing.TB, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, asked{r.URL.EscapedPath(), body, r.Header})
		s.mu.Unlock()
		answer(w, r)
	}))
	own := &http.Transport{}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		s.Close()
	})
	s.aws = sdk(&http.Client{Transport: own}, s.URL)
	s.model = bedrock.New(bedrock.Config{Model: model, AWS: s.aws})
	return s
}

func (s *server) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// whole answers with a JSON body of Converse.
func whole(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// answerJSON returns the JSON body of Converse: content blocks and the stop reason.
func answerJSON(stop string, blocks ...string) string {
	return fmt.Sprintf(`{"metrics":{"latencyMs":5},"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q,`+
		`"usage":{"inputTokens":7,"outputTokens":5,"totalTokens":4012,"cacheReadInputTokens":3000,"cacheWriteInputTokens":1000}}`,
		strings.Join(blocks, ","), stop)
}

var allUsage = llm.Usage{PromptTokens: 7, CompletionTokens: 5, CacheReadTokens: 3000, CacheWriteTokens: 1000}

// refusal answers with one of Bedrock's exceptions.
func refusal(status int, exception, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		if exception != "" {
			w.Header().Set("X-Amzn-Errortype", exception+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
	}
}

// frame is one event of a stream as Bedrock encodes it, padding included.
func frame(kind, name, payload string) []byte {
	var b bytes.Buffer
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func event(name, payload string) []byte { return frame("event", name, payload) }

// The events of answers.
func messageStart() []byte { return event("messageStart", `{"p":"abcdefgh","role":"assistant"}`) }

func text(block int, piece string) []byte {
	raw, _ := json.Marshal(piece)
	return event("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":{"text":%s},"p":"abc"}`, block, raw))
}

func callStart(block int, id, name string) []byte {
	return event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"p":"abcd","start":{"toolUse":{"name":%q,"toolUseId":%q}}}`, block, name, id))
}

func callInput(block int, piece string) []byte {
	raw, _ := json.Marshal(piece)
	return event("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":{"toolUse":{"input":%s}},"p":"a"}`, block, raw))
}

func blockStop(block int) []byte {
	return event("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d,"p":"ab"}`, block))
}

func messageStop(reason string) []byte {
	return event("messageStop", fmt.Sprintf(`{"p":"abcde","stopReason":%q}`, reason))
}

func metadata() []byte {
	return event("metadata", `{"metrics":{"latencyMs":5},"p":"ab","usage":{"cacheReadInputTokenCount":3000,"cacheReadInputTokens":3000,`+
		`"cacheWriteInputTokenCount":1000,"cacheWriteInputTokens":1000,"inputTokens":7,"outputTokens":5,"totalTokens":4012}}`)
}

// working returns the events of an answer with a text and two parallel calls, in fragments.
func working() [][]byte {
	return [][]byte{
		messageStart(),
		text(0, "I look "), text(0, ""), text(0, "twice. ☕"), blockStop(0),
		callStart(1, "tooluse_A", "query_activity"), callInput(1, ""), callInput(1, `{"limit`), callInput(1, `": 10}`), blockStop(1),
		callStart(2, "tooluse_B", "save_memory"), callInput(2, `{"content":`), callInput(2, ` "x"}`), blockStop(2),
		messageStop("tool_use"), metadata(),
	}
}

// worked is the answer of the events of working.
var worked = llm.Response{
	Message: llm.Message{Role: llm.RoleAssistant, Text: "I look twice. ☕", Calls: []llm.ToolCall{
		{ID: "tooluse_A", Name: "query_activity", Arguments: `{"limit": 10}`},
		{ID: "tooluse_B", Name: "save_memory", Arguments: `{"content": "x"}`},
	}},
	StopReason: llm.StopToolUse, Usage: allUsage, Model: model,
}

// streaming answers with events.
func streaming(events ...[]byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, e := range events {
			_, _ = w.Write(e)
			w.(http.Flusher).Flush()
		}
	}
}

// sums adds up deltas.
type sums struct {
	text  string
	calls []llm.ToolCall
}

func (s *sums) add(d llm.Delta) {
	s.text += d.Text
	if d.Call == nil {
		return
	}
	if d.Call.Index == len(s.calls) {
		s.calls = append(s.calls, llm.ToolCall{ID: d.Call.ID, Name: d.Call.Name})
	}
	s.calls[d.Call.Index].Arguments += d.Call.Arguments
}

func say(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}
