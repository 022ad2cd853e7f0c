package anthropic_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/anthropic"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const theKey = `sk-ant-api03-Zm9v/"YmFy+<==_canary`

// model returns a model that sends its requests to base through d.
func model(t testing.TB, base string, d wire.Doer) *anthropic.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Options{BaseURL: base, APIKey: secret.NewValue(theKey), Model: "claude-sonnet-4-5", HTTP: d})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asking returns a model whose server takes the turns.
func asking(t testing.TB, turns ...http.HandlerFunc) (*anthropic.Model, *llmtest.Server) {
	t.Helper()
	s := llmtest.Serve(t, turns...)
	return model(t, s.URL, s.Client()), s
}

func user(text string) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: text}}}
}

func TestConform(t *testing.T) {
	llmtest.Conform(t, llmtest.Provider{
		Play: func(t testing.TB, turns ...llmtest.Turn) llm.Model {
			var handlers []http.HandlerFunc
			for _, turn := range turns {
				handlers = append(handlers, play(turn))
			}
			m, _ := asking(t, handlers...)
			return m
		},
		Stops: []llm.StopReason{llm.StopEndTurn, llm.StopToolUse, llm.StopMaxTokens, llm.StopSequence, llm.StopRefusal, llm.StopOther},
		Classes: []llm.ErrorClass{
			llm.ClassAuthentication, llm.ClassBilling, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassBadRequest,
			llm.ClassContextTooLong, llm.ClassUnavailable, llm.ClassRefused,
		},
	})
}

// play answers as Anthropic does for the turn.
func play(turn llmtest.Turn) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if turn.Fail != "" {
			e := failures[turn.Fail]
			llmtest.JSON(e.status, e.body, "Retry-After", strconv.Itoa(int(turn.RetryAfter.Seconds())), "Request-Id", "req_1")(w, r)
			return
		}
		turn.Play(wholeAnswer(turn.Answer), events(turn.Answer), "text/event-stream; charset=utf-8",
			"event: error\ndata: "+failures[llm.ClassOverloaded].body+"\n\n")(w, r)
	}
}

type failure struct {
	status int
	body   string
}

var failures = map[llm.ErrorClass]failure{
	llm.ClassAuthentication: {401, anthropicError("authentication_error", "invalid x-api-key")},
	llm.ClassBilling:        {402, anthropicError("billing_error", "There is an issue with your billing or payment information.")},
	llm.ClassRateLimit:      {429, anthropicError("rate_limit_error", "This request would exceed your organization's rate limit of 50 requests per minute.")},
	llm.ClassOverloaded:     {529, anthropicError("overloaded_error", "Overloaded")},
	llm.ClassBadRequest:     {400, anthropicError("invalid_request_error", "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens")},
	llm.ClassContextTooLong: {400, anthropicError("invalid_request_error", "prompt is too long: 200082 tokens > 200000 maximum")},
	llm.ClassUnavailable:    {500, anthropicError("api_error", "Internal server error")},
	llm.ClassRefused:        {400, anthropicError("invalid_request_error", "Output blocked by content filtering policy")},
}

func anthropicError(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
}

var stopReasons = map[llm.StopReason]string{
	llm.StopEndTurn: "end_turn", llm.StopToolUse: "tool_use", llm.StopMaxTokens: "max_tokens", llm.StopSequence: "stop_sequence",
	llm.StopRefusal: "refusal", llm.StopOther: "something_new",
}

func usageJSON(u llm.Usage, output int) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,`+
		`"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":0},"output_tokens":%d,"service_tier":"standard"}`,
		u.PromptTokens, u.CacheWriteTokens, u.CacheReadTokens, u.CacheWriteTokens, output)
}

var quote = jsonscan.Quote

func wholeAnswer(r llm.Response) string {
	var blocks []string
	if r.Text != "" {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%s}`, quote(r.Text)))
	}
	for _, c := range r.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(c.ID), quote(c.Name), c.Arguments))
	}
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%s,"content":[%s],"stop_reason":%q,"stop_sequence":null,"usage":%s}`,
		quote(r.Model), strings.Join(blocks, ","), stopReasons[r.StopReason], usageJSON(r.Usage, r.Usage.CompletionTokens))
}

// event is an event of Anthropic's stream.
func event(kind, members string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, members)
}

// events returns an answer in the form in which Anthropic streams it.
func events(r llm.Response) []string {
	out := []string{
		event("message_start", fmt.Sprintf(`,"message":{"id":"msg_1","type":"message","role":"assistant","model":%s,"content":[],`+
			`"stop_reason":null,"stop_sequence":null,"usage":%s}`, quote(r.Model), usageJSON(r.Usage, min(1, r.Usage.CompletionTokens)))),
	}
	block := 0
	add := func(start string, deltas ...string) {
		out = append(out, event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, block, start)), event("ping", ""))
		for _, d := range deltas {
			out = append(out, event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, block, d)))
		}
		out = append(out, event("content_block_stop", fmt.Sprintf(`,"index":%d`, block)))
		block++
	}
	if r.Text != "" {
		var deltas []string
		for _, p := range llmtest.Pieces(r.Text, 40) {
			deltas = append(deltas, fmt.Sprintf(`{"type":"text_delta","text":%s}`, quote(p)))
		}
		add(`{"type":"text","text":""}`, deltas...)
	}
	for _, c := range r.Calls {
		deltas := []string{`{"type":"input_json_delta","partial_json":""}`}
		if c.Arguments != "{}" { // Anthropic streams no piece for it
			for _, p := range llmtest.Pieces(string(c.Arguments), 7) {
				deltas = append(deltas, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, quote(p)))
			}
		}
		add(fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(c.ID), quote(c.Name)), deltas...)
	}
	return append(out,
		event("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}`,
			stopReasons[r.StopReason], r.Usage.CompletionTokens)),
		event("message_stop", ""))
}
