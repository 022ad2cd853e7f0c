package bedrock_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
)

func TestAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want llm.Message
	}{
		"text": {answerJSON("end_turn", `{"text":"Hello, "}`, `{"text":"world <&> ☕"}`), llm.Message{Text: "Hello, world <&> ☕"}},
		"two calls": {
			answerJSON("end_turn", `{"text":"Both."}`, `{"toolUse":{"toolUseId":"A","name":"one","input":{"b":"<1>","a":[1.50,12345678901234567890,null]}}}`,
				`{"toolUse":{"toolUseId":"B","name":"two","input":{}}}`),
			llm.Message{Text: "Both.", Calls: []llm.ToolCall{
				{ID: "A", Name: "one", Arguments: `{"a":[1.50,12345678901234567890,null],"b":"<1>"}`}, {ID: "B", Name: "two", Arguments: `{}`},
			}},
		},
		"a call without an input": {answerJSON("end_turn", `{"toolUse":{"toolUseId":"A","name":"one"}}`),
			llm.Message{Calls: []llm.ToolCall{{ID: "A", Name: "one"}}}},
		"an input that is no object": {answerJSON("end_turn", `{"toolUse":{"toolUseId":"A","name":"one","input":"{"}}`),
			llm.Message{Calls: []llm.ToolCall{{ID: "A", Name: "one", Arguments: `"{"`}}}},
		"reasoning, and what is new": {
			answerJSON("end_turn", `{"reasoningContent":{"reasoningText":{"text":"hm","signature":"x"}}}`, `{"somethingNew":{"x":[1]}}`, `{"text":"hi"}`),
			llm.Message{Text: "hi"},
		},
		"nothing": {answerJSON("end_turn"), llm.Message{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, whole(c.body))
			got, err := s.model.Generate(t.Context(), say("go"), nil)
			c.want.Role = llm.RoleAssistant
			want := llm.Response{Message: c.want, StopReason: llm.StopEndTurn, Usage: allUsage, Model: model}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (- want, + got):\n%s", err, diff)
			}
		})
	}
}

// An answer has the same stop reason with and without a stream.
func TestStopReasons(t *testing.T) {
	for bedrocks, want := range map[string]llm.StopReason{
		"end_turn": llm.StopEndTurn, "tool_use": llm.StopToolUse, "max_tokens": llm.StopMaxTokens, "stop_sequence": llm.StopSequence,
		"model_context_window_exceeded": llm.StopMaxTokens,
		"guardrail_intervened":          llm.StopRefusal, "content_filtered": llm.StopRefusal,
		"malformed_tool_use": llm.StopToolUse, "something_new": llm.StopOther,
	} {
		got, err := serve(t, whole(answerJSON(bedrocks, `{"text":"hi"}`))).model.Generate(t.Context(), say("go"), nil)
		if err != nil || got.StopReason != want || got.Text != "hi" {
			t.Errorf("%s: %+v, %v", bedrocks, got, err)
		}
		got, err = serve(t, streaming(text(0, "hi"), messageStop(bedrocks), metadata())).model.Generate(t.Context(), say("go"), func(llm.Delta) {})
		if err != nil || got.StopReason != want || got.Text != "hi" {
			t.Errorf("%s, streamed: %+v, %v", bedrocks, got, err)
		}
	}
}

// What Bedrock could not read of the model is no answer, also where a part of it came.
func TestAnAnswerThatIsMalformed(t *testing.T) {
	const malformed = "malformed_model_output"
	_, err := serve(t, whole(answerJSON(malformed, `{"text":"hi"}`))).model.Generate(t.Context(), say("go"), nil)
	if llm.ClassOf(err) != llm.ClassUnavailable {
		t.Errorf("got %v", err)
	}
	s := serve(t, streaming(text(0, "hi"), messageStop(malformed), metadata()))
	if _, err := s.model.Generate(t.Context(), say("go"), func(llm.Delta) {}); llm.ClassOf(err) != llm.ClassUnavailable {
		t.Errorf("streamed: got %v", err)
	}
}

func TestAnAnswerThatIsNone(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":        ``,
		"an empty one":   `{}`,
		"HTML":           `<html>`,
		"cut":            answerJSON("end_turn", `{"text":"hi"}`)[:100],
		"no message":     `{"output":{},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`,
		"a new output":   `{"output":{"somethingNew":{}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`,
		"no stop reason": `{"output":{"message":{"role":"assistant","content":[]}},"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`,
		"no usage":       `{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}`,
	} {
		if _, err := serve(t, whole(body)).model.Generate(t.Context(), say("go"), nil); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each refusal of Bedrock is requested once: Generate does not retry.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		status             int
		exception, message string
		want               llm.ErrorClass
	}{
		{429, "ThrottlingException", "Too many requests, please wait before trying again.", llm.ClassRateLimit},
		{429, "ThrottlingException", "Too many tokens, please wait before trying again.", llm.ClassRateLimit},
		{429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", llm.ClassBilling},
		{429, "", "", llm.ClassRateLimit},
		{400, "ServiceQuotaExceededException", "Your request exceeds the service quota for your account.", llm.ClassBilling},
		{403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", llm.ClassAuthentication},
		{403, "AccessDeniedException", "Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A valid payment instrument must be provided.", llm.ClassBilling},
		{403, "UnrecognizedClientException", "The security token included in the request is invalid.", llm.ClassAuthentication},
		{403, "ExpiredTokenException", "The security token included in the request is expired", llm.ClassAuthentication},
		{400, "IncompleteSignatureException", "", llm.ClassAuthentication},
		{401, "", "", llm.ClassAuthentication},
		{402, "", "", llm.ClassBilling},
		{404, "ResourceNotFoundException", "Could not find the model.", llm.ClassBadRequest},
		{404, "ResourceNotFoundException", "Model use case details have not been submitted for this account.", llm.ClassAuthentication},
		{400, "ValidationException", "The text field in the ContentBlock object at messages.0.content.0 is blank.", llm.ClassBadRequest},
		{400, "ValidationException", "Value at 'messages.1.member.content.1.member.toolUse.toolUseId' is too long", llm.ClassBadRequest},
		{400, "ValidationException", "Input is too long for requested model.", llm.ClassContextTooLong},
		{400, "ValidationException", "The model returned the following errors: prompt is too long: 215523 tokens > 200000 maximum", llm.ClassContextTooLong},
		{400, "ValidationException", "The model returned the following errors: input length and `max_tokens` exceed context limit: 196395 + 64000 > 204698", llm.ClassContextTooLong},
		{400, "ValidationException", "Input Tokens Exceeded: Number of input tokens exceeds maximum length.", llm.ClassContextTooLong},
		{400, "ValidationException", "This request has been blocked by our content filters.", llm.ClassRefused},
		{400, "ValidationException", "Operation not allowed", llm.ClassAuthentication},
		{424, "ModelErrorException", "The system encountered an unexpected error during processing.", llm.ClassUnavailable},
		{408, "ModelTimeoutException", "Model has timed out in processing the request.", llm.ClassTimeout},
		{429, "ModelNotReadyException", "Model is not ready for inference.", llm.ClassUnavailable},
		{500, "InternalServerException", "", llm.ClassUnavailable},
		{503, "ServiceUnavailableException", "Bedrock is unable to process your request.", llm.ClassUnavailable},
		{413, "", "", llm.ClassContextTooLong},
		{418, "SomethingNewException", "", llm.ClassBadRequest},
		{502, "", "", llm.ClassUnavailable},
	} {
		for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
			s := serve(t, refusal(c.status, c.exception, c.message))
			_, err := s.model.Generate(t.Context(), say("go"), onDelta)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Class != c.want || e.Provider != "bedrock" || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%d %s, %s: %v", c.status, c.exception, name, err)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("%d %s, %s: asked %d times", c.status, c.exception, name, n)
			}
		}
	}
}

func TestAnErrorThatIsNotBedrocks(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html>" + strings.Repeat("bad gateway ", 100_000)))
	})
	_, err := s.model.Generate(t.Context(), say("go"), nil)
	if llm.ClassOf(err) != llm.ClassUnavailable || len(err.Error()) > 3000 {
		t.Errorf("got %.300v", err)
	}
	long := strings.NewReader(strings.Repeat("x", 1<<20))
	answer := canned(long)
	m := through(transport(func(r *http.Request) (*http.Response, error) {
		resp, err := answer(r)
		resp.StatusCode = http.StatusBadGateway
		return resp, err
	}), "http://bedrock.test")
	if _, err := m.Generate(t.Context(), say("go"), nil); llm.ClassOf(err) != llm.ClassUnavailable || long.Len() < 1<<19 {
		t.Errorf("a long one, read up to %d bytes before its end: %.300v", long.Len(), err)
	}
	s = serve(t, refusal(400, "ValidationException", strings.Repeat("äöü", 2000)))
	if _, err := s.model.Generate(t.Context(), say("go"), nil); llm.ClassOf(err) != llm.ClassBadRequest || len(err.Error()) > 3000 {
		t.Errorf("a long text: %.300v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Fri, 20 Nov 2026 10:00:00 GMT"
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "": 0, "-5": 0, "soon": 0, "NaN": 0, " 30 ": 30 * time.Second,
		"Fri, 20 Nov 2026 10:02:00 GMT": 2 * time.Minute, "Fri, 20 Nov 2026 09:00:00 GMT": 0,
		"2000000000": 24 * time.Hour, "Fri, 20 Nov 2099 10:02:00 GMT": 24 * time.Hour,
	} {
		for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
			s := serve(t, refusal(429, "ThrottlingException", "slow down", "Retry-After", value, "Date", date))
			_, err := s.model.Generate(t.Context(), say("go"), onDelta)
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.RetryAfter != want {
				t.Errorf("%q, %s: %v", value, name, err)
			}
		}
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	s := serve(t, whole(`{}`))
	s.Close()
	for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
		if _, err := s.model.Generate(t.Context(), say("go"), onDelta); llm.ClassOf(err) != llm.ClassUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.model.Generate(late, say("go"), nil); llm.ClassOf(err) != llm.ClassTimeout {
		t.Errorf("too late: %v", err)
	}
	gone, lose := context.WithCancelCause(t.Context())
	lost := errors.New("lost the lane")
	lose(lost)
	before := len(s.requests())
	if _, err := s.model.Generate(gone, say("go"), nil); llm.ClassOf(err) != llm.ClassCanceled || !errors.Is(err, lost) {
		t.Errorf("canceled: %v", err)
	}
	if len(s.requests()) != before {
		t.Error("a canceled call was sent")
	}
}

// A configuration that is missing must be fixed by a person. It is read again for each request.
func TestSetup(t *testing.T) {
	s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
	var cfg aws.Config
	failing := errors.New("no profile of that name")
	m := bedrock.New(bedrock.Config{Model: model, AWS: func(context.Context) (aws.Config, error) { return cfg, failing }})
	ask := func(want llm.ErrorClass, text string) {
		t.Helper()
		if _, err := m.Generate(t.Context(), say("go"), nil); llm.ClassOf(err) != want || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("got %v", err)
		}
	}
	ask(llm.ClassAuthentication, "no profile of that name")
	failing = nil
	ask(llm.ClassAuthentication, "no AWS region")
	cfg = aws.Config{Region: "eu-central-1", BaseEndpoint: aws.String(s.URL), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no role found")
	})
	ask(llm.ClassAuthentication, "no role found")
	m = bedrock.New(bedrock.Config{Model: model})
	ask(llm.ClassAuthentication, "no AWS configuration")
	cfg.Credentials = keys
	client := bedrockruntime.NewFromConfig(cfg)
	m = bedrock.New(bedrock.Config{Client: client})
	ask(llm.ClassBadRequest, "no model is set")
	if got, err := m.Generate(t.Context(), llm.Request{Model: "asked-for", Messages: say("go").Messages}, nil); err != nil || got.Model != "asked-for" {
		t.Errorf("through a client: %+v, %v", got, err)
	}
	if m.Name() != bedrock.Name {
		t.Errorf("it is called %s", m.Name())
	}
}

// No error shows a key.
func TestErrorsHoldNoKey(t *testing.T) {
	for _, s := range []*server{
		serve(t, refusal(403, "InvalidSignatureException", "The request signature we calculated does not match.")),
		serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	} {
		_, err := s.model.Generate(t.Context(), say("go"), nil)
		if err == nil || strings.Contains(err.Error(), "the-secret-key") || strings.Contains(err.Error(), "AKIDEXAMPLE") {
			t.Errorf("got %v", err)
		}
	}
}
