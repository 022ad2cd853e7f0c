package wire_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/wire"
)

// failed returns the error for a status and a body.
func failed(t *testing.T, status int, body string, header ...string) *llm.Error {
	t.Helper()
	s := llmtest.Serve(t, llmtest.JSON(status, body, header...))
	err, ok := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, false, &receiver{}).(*llm.Error) //nolint:errorlint // it says so
	if !ok {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return err
}

func TestErrorClasses(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   llm.ErrorClass
	}{
		{301, ``, llm.ClassBadRequest},
		{400, `{}`, llm.ClassBadRequest},
		{401, `{}`, llm.ClassAuthentication},
		{402, `{}`, llm.ClassBilling},
		{403, `{}`, llm.ClassAuthentication},
		{403, "\n<html><head><title>403 Forbidden</title></head></html>", llm.ClassBadRequest}, // a firewall dislikes what a visitor wrote
		{401, "<html>", llm.ClassAuthentication},
		{404, `404 page not found`, llm.ClassBadRequest},
		{407, ``, llm.ClassAuthentication},
		{408, ``, llm.ClassTimeout},
		{409, ``, llm.ClassUnavailable},
		{413, `<html>Request Entity Too Large</html>`, llm.ClassContextTooLong},
		{422, `{"detail":[{"loc":["body","max_tokens"],"msg":"extra fields not permitted"}]}`, llm.ClassBadRequest},
		{425, ``, llm.ClassUnavailable},
		{429, ``, llm.ClassRateLimit},
		{500, `null`, llm.ClassUnavailable},
		{502, `<html>Bad Gateway</html>`, llm.ClassUnavailable},
		{503, ``, llm.ClassOverloaded},
		{504, ``, llm.ClassUnavailable},
		{529, ``, llm.ClassOverloaded},

		// OpenAI
		{401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, llm.ClassAuthentication},
		{429, `{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, llm.ClassRateLimit},
		{429, `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000.","type":"tokens","code":"rate_limit_exceeded"}}`, llm.ClassContextTooLong},
		{429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ClassBilling},
		{429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\nPlease retry in 25.9s.",` +
			`"status":"RESOURCE_EXHAUSTED"}}]`, llm.ClassRateLimit}, // Gemini's limits per minute
		{400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`,
			llm.ClassAuthentication}, // Gemini
		// Groq, when it can't read what the model wrote
		{400, `{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed"}}`, llm.ClassUnavailable},
		{400, `{"error":{"message":"Parsing failed.","type":"invalid_request_error","code":"output_parse_failed"}}`, llm.ClassUnavailable},
		{400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}`, llm.ClassAuthentication}, // xAI
		{400, `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, llm.ClassContextTooLong},
		{400, `{"error":{"message":"Unsupported parameter: 'max_tokens'","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, llm.ClassBadRequest},
		{400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","code":"invalid_prompt"}}`, llm.ClassRefused},
		{404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`, llm.ClassBadRequest},
		// Azure
		{400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, llm.ClassRefused},
		// vLLM, before and after its 0.10
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}`, llm.ClassContextTooLong},
		{400, `{"error":{"message":"You passed 1015 input tokens. However, the model's context length is only 1024 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`, llm.ClassContextTooLong},
		{401, `{"error":"Unauthorized"}`, llm.ClassAuthentication},
		// llama.cpp
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, llm.ClassContextTooLong},
		// Ollama
		{404, `{"error":{"message":"model 'x' not found","type":"not_found_error","param":null,"code":null}}`, llm.ClassBadRequest},
		{400, `{"error":"registry.ollama.ai/library/x does not support tools"}`, llm.ClassBadRequest},
		// OpenRouter
		{402, `{"error":{"code":402,"message":"Insufficient credits"}}`, llm.ClassBilling},
		{403, `{"error":{"code":403,"message":"x requires moderation. Your input was flagged for violence.","metadata":{"reasons":["violence"]}}}`, llm.ClassRefused},
		// too long, in the words of xAI, Kimi, Alibaba, Zhipu, vLLM, Together and Hugging Face, and GitHub
		{400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`,
			llm.ClassContextTooLong},
		{400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}`, llm.ClassContextTooLong},
		{400, `{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}`,
			llm.ClassContextTooLong},
		{400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, llm.ClassContextTooLong},
		{400, `{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.","type":"BadRequestError","code":400}}`,
			llm.ClassContextTooLong},
		{422, "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens\"," +
			`"type":"invalid_request_error"}}`, llm.ClassContextTooLong},
		{400, `{"error":{"message":"prompt token count of 70000 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}`,
			llm.ClassContextTooLong},
		// LiteLLM
		{400, `{"error":{"message":"litellm.ContextWindowExceededError: …","type":"ContextWindowExceededError","param":null,"code":"400"}}`, llm.ClassContextTooLong},
		{400, `{"error":{"message":"litellm.ContentPolicyViolationError","type":"ContentPolicyViolationError","code":"400"}}`, llm.ClassRefused},
		// Google
		{400, `[{"error":{"code":400,"message":"The input token count (5) exceeds the maximum number of tokens allowed (4).","status":"INVALID_ARGUMENT"}}]`, llm.ClassContextTooLong},

		// Anthropic
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum"}}`, llm.ClassContextTooLong},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 1 + 2 > 3"}}`, llm.ClassContextTooLong},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, llm.ClassBilling},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, llm.ClassBilling},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: roles must alternate"}}`, llm.ClassBadRequest},
		{403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, llm.ClassAuthentication},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, llm.ClassBadRequest},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, llm.ClassContextTooLong},
		{500, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.ClassOverloaded},
		{504, `{"type":"error","error":{"type":"timeout_error","message":"Request timed out"}}`, llm.ClassUnavailable},

		// The message counts only if nothing is more precise.
		{401, `{"error":{"message":"no key for the context window"}}`, llm.ClassAuthentication},
		{500, `{"error":{"message":"cannot allocate the context window"}}`, llm.ClassUnavailable},
	} {
		if got := failed(t, test.status, test.body); got.Class != test.want {
			t.Errorf("%d %s: got %s, want %s", test.status, test.body, got.Class, test.want)
		}
	}
}

// Within an answer there is no status except the one that the error names.
func TestErrorsWithinAnAnswer(t *testing.T) {
	for body, want := range map[string]llm.ErrorClass{
		`{"error":{"code":429,"message":"slow down"}}`:                              llm.ClassRateLimit,
		`{"error":{"code":"502","message":"Provider disconnected"}}`:                llm.ClassUnavailable,
		`{"error":{"code":"server_error","message":"Provider disconnected"}}`:       llm.ClassUnavailable,
		`{"error":{"code":7,"message":"?"}}`:                                        llm.ClassUnavailable,
		`{"error":{"type":"overloaded_error","message":"Overloaded"}}`:              llm.ClassOverloaded,
		`{"error":{"type":"rate_limit_error","message":"slow down"}}`:               llm.ClassRateLimit,
		`{"error":{"type":"authentication_error","message":"?"}}`:                   llm.ClassAuthentication,
		`{"error":{"type":"invalid_request_error","message":"?"}}`:                  llm.ClassBadRequest,
		`{"error":{"type":"invalid_request_error","message":"prompt is too long"}}`: llm.ClassContextTooLong,
		`{"error":{"message":"maximum context length is 1","code":400}}`:            llm.ClassContextTooLong,
		`{"object":"error","message":"?","type":"InternalServerError","code":500}`:  llm.ClassUnavailable,
		`{"error":"something broke"}`:                                               llm.ClassUnavailable,
		`{"error":{}}`:                                                              llm.ClassUnavailable,
	} {
		s := llmtest.Serve(t, llmtest.JSON(200, body))
		err := endpoint(t, s.URL, s.Client()).Ask(t.Context(), nil, false, &receiver{err: wire.ParseFailure(0, []byte(body))})
		if got := llm.ClassOf(err); got != want {
			t.Errorf("%s: got %s (%v), want %s", body, got, err, want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"No. ","type":"insufficient_quota","code":"insufficient_quota"}}`: "HTTP 400: insufficient_quota: No.",
		`{"error":{"message":"No.","type":"a","code":7}}`:                                      "HTTP 400: a: 7: No.",
		`{"error":{"message":{"text":"No."},"code":null}}`:                                     `HTTP 400: {"text":"No."}`,
		`{"error":null,"message":"No."}`:                                                       "HTTP 400: No.",
		`{"error":"No."}`:                                                                      "HTTP 400: No.",
		`{"detail":"No."}`:                                                                     `HTTP 400: "No."`,
		`{"error":{"reason":"No."}}`:                                                           `HTTP 400: {"error":{"reason":"No."}}`,
		`[{"error":{"message":"No."}}]`:                                                        "HTTP 400: No.",
		`No.`:                                                                                  "HTTP 400: No.",
		``:                                                                                     "HTTP 400",
	} {
		if got := wire.ParseFailure(400, []byte(body)).Error(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	date := now.Format(http.TimeFormat)
	for _, test := range []struct {
		header []string
		want   time.Duration
	}{
		{nil, 0},
		{[]string{"Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", " 7 "}, 7 * time.Second},
		{[]string{"Retry-After", "1.5"}, 1500 * time.Millisecond},
		{[]string{"Retry-After-Ms", "250"}, 250 * time.Millisecond},
		{[]string{"Retry-After-Ms", "250", "Retry-After", "7"}, 250 * time.Millisecond},
		{[]string{"Retry-After-Ms", "soon", "Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", now.Add(90 * time.Second).Format(http.TimeFormat), "Date", date}, 90 * time.Second},
		{[]string{"Retry-After", now.Add(-90 * time.Second).Format(http.TimeFormat), "Date", date}, 0},
		{[]string{"Retry-After", now.AddDate(1, 0, 0).Format(http.TimeFormat), "Date", date}, 24 * time.Hour},
		{[]string{"Retry-After", now.Format(http.TimeFormat), "Date", "today"}, 0},
		{[]string{"Retry-After", "-1"}, 0},
		{[]string{"Retry-After", "1e300"}, 24 * time.Hour},
		{[]string{"Retry-After", "NaN"}, 0},
		{[]string{"Retry-After", "+Inf"}, 24 * time.Hour},
		{[]string{"Retry-After", "soon"}, 0},
	} {
		if got := failed(t, 429, `{}`, test.header...).RetryAfter; got != test.want {
			t.Errorf("%v: got %v, want %v", test.header, got, test.want)
		}
	}
}

// TestTheWaitThatAMessageNames counts where no header has it, as Gemini's.
func TestTheWaitThatAMessageNames(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"You exceeded your current quota.\\nPlease retry in 37.5s.": 37500 * time.Millisecond,
		"Rate limit reached. Please try again in 1m2.5s. Visit us.": 62500 * time.Millisecond,
		"Please try again in 120ms.":                                120 * time.Millisecond,
		"Please retry in 9999h.":                                    24 * time.Hour,
		"Please retry in a minute.":                                 0,
		"Please retry in 5.":                                        0,
		"Please retry in 99999999999999999999999h.":                 0,
		"Please retry.":                                             0,
	} {
		if got := failed(t, 429, `{"error":{"message":"`+message+`"}}`).RetryAfter; got != want {
			t.Errorf("%q: got %v, want %v", message, got, want)
		}
	}
	if got := failed(t, 429, `{"error":{"message":"Please retry in 37s."}}`, "Retry-After", "7").RetryAfter; got != 7*time.Second {
		t.Errorf("with a header: got %v", got)
	}
	if got := failed(t, 401, `{"error":{"message":"Please retry in 37s."}}`).RetryAfter; got != 0 {
		t.Errorf("an error that does not pass: got %v", got)
	}
}
