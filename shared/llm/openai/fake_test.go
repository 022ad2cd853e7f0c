package openai_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const theKey = `sk-proj-Zm9v/"YmFy+<==_canary`

// model returns a model that sends its requests to base through d.
func model(t testing.TB, base string, d wire.Doer) *openai.Model {
	t.Helper()
	m, err := openai.New(openai.Options{BaseURL: base, APIKey: secret.NewValue(theKey), Model: "gpt-4o-mini", HTTP: d})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asking returns a model whose server takes the turns.
func asking(t testing.TB, turns ...http.HandlerFunc) (*openai.Model, *llmtest.Server) {
	t.Helper()
	s := llmtest.Serve(t, turns...)
	return model(t, s.URL+"/v1", s.Client()), s
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
		Stops: []llm.StopReason{llm.StopEndTurn, llm.StopToolUse, llm.StopMaxTokens, llm.StopRefusal, llm.StopOther},
		Classes: []llm.ErrorClass{
			llm.ClassAuthentication, llm.ClassBilling, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassBadRequest,
			llm.ClassContextTooLong, llm.ClassUnavailable, llm.ClassRefused,
		},
	})
}

// play answers as OpenAI does for the turn.
func play(turn llmtest.Turn) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if turn.Fail != "" {
			e := failures[turn.Fail]
			llmtest.JSON(e.status, e.body, "Retry-After", strconv.Itoa(int(turn.RetryAfter.Seconds())))(w, r)
			return
		}
		turn.Play(wholeAnswer(turn.Answer), events(turn.Answer), "text/event-stream", "data: "+failures[llm.ClassOverloaded].body+"\n\n")(w, r)
	}
}

type failure struct {
	status int
	body   string
}

var failures = map[llm.ErrorClass]failure{
	llm.ClassAuthentication: {401, openAIError("Incorrect API key provided: sk-proj-****nary.", "invalid_request_error", `"invalid_api_key"`)},
	llm.ClassBilling: {429, openAIError("You exceeded your current quota, please check your plan and billing details.",
		"insufficient_quota", `"insufficient_quota"`)},
	llm.ClassRateLimit: {429, openAIError("Rate limit reached for gpt-4o-mini on requests per min (RPM): Limit 3, Used 3, Requested 1.",
		"requests", `"rate_limit_exceeded"`)},
	llm.ClassOverloaded: {503, openAIError("The engine is currently overloaded, please try again later", "server_error", `null`)},
	llm.ClassBadRequest: {400, openAIError("Invalid schema for function 'look': schema must be a JSON Schema of 'type: \"object\"'.",
		"invalid_request_error", `"invalid_function_parameters"`)},
	llm.ClassContextTooLong: {400, openAIError("This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens.",
		"invalid_request_error", `"context_length_exceeded"`)},
	llm.ClassUnavailable: {500, openAIError("The server had an error while processing your request. Sorry about that!", "server_error", `null`)},
	llm.ClassRefused:     {400, openAIError("Your request was rejected by our safety system.", "invalid_request_error", `"content_policy_violation"`)},
}

func openAIError(message, kind, code string) string {
	return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, message, kind, code)
}

var finishReasons = map[llm.StopReason]string{
	llm.StopEndTurn: "stop", llm.StopToolUse: "tool_calls", llm.StopMaxTokens: "length", llm.StopRefusal: "content_filter", llm.StopOther: "something_new",
}

func usageJSON(u llm.Usage) string {
	prompt := u.PromptTokens + u.CacheReadTokens + u.CacheWriteTokens
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"audio_tokens":0,"cache_write_tokens":%d},`+
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`, prompt, u.CompletionTokens, prompt+u.CompletionTokens, u.CacheReadTokens, u.CacheWriteTokens)
}

var quote = jsonscan.Quote

func wholeAnswer(r llm.Response) string {
	content, calls := "null", ""
	if r.Text != "" {
		content = quote(r.Text)
	}
	for _, c := range r.Calls {
		calls += fmt.Sprintf(`,{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.ID), quote(c.Name), quote(string(c.Arguments)))
	}
	if calls != "" {
		calls = `,"tool_calls":[` + calls[1:] + `]`
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1753000000,"model":%s,"choices":[{"index":0,"message":`+
		`{"role":"assistant","content":%s%s,"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":%q}],"usage":%s,"service_tier":"default"}`,
		quote(r.Model), content, calls, finishReasons[r.StopReason], usageJSON(r.Usage))
}

// event is a chunk of OpenAI's stream.
func event(modelName, delta, finish, usage string) string {
	choices := ""
	if delta != "" {
		choices = fmt.Sprintf(`{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}`, delta, finish)
	}
	return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":%s,"choices":[%s],"usage":%s,"obfuscation":"xY7"}`+"\n\n",
		quote(modelName), choices, usage)
}

// events returns an answer in the form in which OpenAI streams it. The pieces of calls are
// interleaved.
func events(r llm.Response) []string {
	var out []string
	delta := func(format string, args ...any) {
		out = append(out, event(r.Model, fmt.Sprintf(format, args...), "null", "null"))
	}
	delta(`{"role":"assistant","content":"","refusal":null}`)
	for _, p := range llmtest.Pieces(r.Text, 40) {
		delta(`{"content":%s}`, quote(p))
	}
	var rest [][]string
	for i, c := range r.Calls {
		delta(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, quote(c.ID), quote(c.Name))
		rest = append(rest, llmtest.Pieces(string(c.Arguments), 3))
	}
	for more := true; more; {
		more = false
		for i := range rest {
			if len(rest[i]) > 0 {
				delta(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(rest[i][0]))
				rest[i], more = rest[i][1:], true
			}
		}
	}
	return append(out, event(r.Model, `{}`, strconv.Quote(finishReasons[r.StopReason]), "null"),
		event(r.Model, "", "", usageJSON(r.Usage)), "data: [DONE]\n\n")
}
