package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/llm/openai"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// sent returns the body of a request, and the URL.
func sent(t *testing.T, o openai.Options, req llm.Request, onDelta func(llm.Delta)) (url string, body []byte) {
	t.Helper()
	o.HTTP = llmtest.Doer(func(r *http.Request) (*http.Response, error) {
		url = r.URL.String()
		body, _ = io.ReadAll(r.Body)
		return nil, errors.New("enough")
	})
	if o.Model == "" {
		o.Model = "gpt-4o-mini"
	}
	m, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), req, onDelta); body == nil {
		t.Fatalf("sent nothing: %v", err)
	}
	return url, body
}

// golden compares JSON with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	indented.WriteByte('\n')
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("%s: %v (- want, + sent)\n%s", name, err, diff)
	}
}

// conversation uses everything that a conversation may contain: parallel calls, results that are
// errors, notes of the loop, and calls that a strict server refuses.
func conversation() llm.Request {
	warm := 0.7
	return llm.Request{
		Model:  "llama3.3",
		System: "You help <people> & agents.",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "How is the weather?"},
			{Role: llm.RoleAssistant, Text: "I look.", Calls: []llm.ToolCall{
				{ID: "call_1", Name: "fetch_weather", Arguments: `{"city": "Köln", "when": "<now>"}`},
				{ID: "functions.fly.to:1", Name: "fly.to the moon", Arguments: `{"to": `},
				{ID: "call_3", Name: "save_memory"},
			}},
			{Role: llm.RoleTool, Results: []llm.ToolResult{
				{CallID: "call_1", Name: "fetch_weather", Content: `{"sky":"grey"}`},
				{CallID: "functions.fly.to:1", Name: "fly.to the moon", Content: "broken JSON", IsError: true},
				{CallID: "call_3", Name: "save_memory"},
			}},
			{Role: llm.RoleSystem, Text: "There is no tool named fly.to the moon."},
			{Role: llm.RoleAssistant},
			{Role: llm.RoleAssistant, Text: "It is grey."},
			{Role: llm.RoleUser, Text: "Thanks."},
		},
		Tools: []llm.Tool{
			{Name: "fetch_weather", Description: "Fetches the weather.", Parameters: json.RawMessage(
				`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)},
			{Name: "save_memory"},
		},
		MaxTokens: 500, Temperature: &warm,
	}
}

func TestRequests(t *testing.T) {
	key := secret.NewValue("k")
	_, body := sent(t, openai.Options{BaseURL: "http://localhost:11434/v1"}, conversation(), nil)
	golden(t, "conversation.json", body)
	_, body = sent(t, openai.Options{BaseURL: "http://localhost:11434/v1"}, user("Hello."), func(llm.Delta) {})
	golden(t, "streamed.json", body)

	own := conversation()
	own.Model, own.Messages = "", own.Messages[:3]
	own.Messages[1].Calls[0].ID = strings.Repeat("a long id of another provider ", 3)
	own.Messages[2].Results[0].CallID = own.Messages[1].Calls[0].ID
	_, body = sent(t, openai.Options{APIKey: key}, own, nil)
	golden(t, "openai.json", body)
}

// TestMistral demands short call ids, the assistant after a result, and no stream_options.
func TestMistral(t *testing.T) {
	asked := conversation()
	asked.Model = "mistral-large-latest"
	asked.Messages[1].Calls[2].ID, asked.Messages[2].Results[2].CallID = "D681PevKs", "D681PevKs"
	_, body := sent(t, openai.Options{BaseURL: "https://api.mistral.ai/v1", APIKey: secret.NewValue("k")}, asked, func(llm.Delta) {})
	golden(t, "mistral.json", body)
	_, body = sent(t, openai.Options{BaseURL: "http://localhost:8000/v1", Model: "mistralai/Devstral-Small-2505"}, user("Hello."), func(llm.Delta) {})
	if !strings.Contains(string(body), `"include_usage":true`) {
		t.Errorf("another provider is not asked for the usage: %s", body)
	}
}

func TestWhereRequestsGo(t *testing.T) {
	for base, want := range map[string]string{
		"":                               "https://api.openai.com/v1/chat/completions",
		"https://api.openai.com/v1/":     "https://api.openai.com/v1/chat/completions",
		"http://localhost:11434/v1":      "http://localhost:11434/v1/chat/completions",
		"http://[::1]:8000":              "http://[::1]:8000/chat/completions",
		"https://openrouter.ai/api/v1":   "https://openrouter.ai/api/v1/chat/completions",
		"https://x.example/v1?version=2": "https://x.example/v1/chat/completions?version=2",
	} {
		if got, _ := sent(t, openai.Options{BaseURL: base, APIKey: secret.NewValue("k")}, user("go"), nil); got != want {
			t.Errorf("%q: %s", base, got)
		}
	}
}

// OpenAI has renamed the limit, for itself and for its newer models.
func TestTheLimitsName(t *testing.T) {
	const before, now = `"max_tokens":9`, `"max_completion_tokens":9`
	for _, test := range []struct{ base, model, want string }{
		{"", "gpt-4o-mini", now}, {"", "gpt-3.5-turbo", now}, {"", "o3", now},
		{"http://localhost/v1", "llama3.3", before}, {"http://localhost/v1", "gpt-oss:20b", before}, {"http://localhost/v1", "openai/gpt-4o", before},
		{"http://localhost/v1", "gpt-5-mini", now}, {"https://openrouter.ai/api/v1", "openai/o4-mini", now}, {"http://localhost/v1", "meta/o-model", before},
	} {
		req := user("go")
		req.Model, req.MaxTokens = test.model, 9
		_, body := sent(t, openai.Options{BaseURL: test.base, APIKey: secret.NewValue("k")}, req, nil)
		if strings.Contains(string(body), before) != (test.want == before) || strings.Contains(string(body), now) != (test.want == now) {
			t.Errorf("%s, %s: %s", test.base, test.model, body)
		}
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	m, _ := asking(t) // any request fails the test
	nan := math.NaN()
	hot, broken := user("go"), user("go")
	hot.Temperature = &nan
	broken.Tools = []llm.Tool{{Name: "look", Parameters: json.RawMessage(`{"type":`)}}
	for _, req := range []llm.Request{hot, broken} {
		if _, err := m.Generate(t.Context(), req, nil); llm.ClassOf(err) != llm.ClassBadRequest {
			t.Errorf("got %v", err)
		}
	}
}

func TestNew(t *testing.T) {
	key := secret.NewValue("canary")
	for _, o := range []openai.Options{
		{}, {APIKey: key}, {Model: "m"}, {Model: "m", BaseURL: "https://api.openai.com/v1"}, {Model: "m", BaseURL: "localhost:11434/canary"},
		{Model: "m", BaseURL: "https://canary:canary@host"}, {Model: "m", APIKey: secret.NewValue("canary\r\nX-Other: 1")},
	} {
		if _, err := openai.New(o); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	m, err := openai.New(openai.Options{Model: "m", BaseURL: "http://localhost/v1", APIKey: key})
	if err != nil || m.Name() != "openai" || strings.Contains(fmt.Sprintf("%+v %#v", m, m), "canary") {
		t.Errorf("got %+v, %v", m, err)
	}
}

// The key is sent in its header only, and never shown, even if the server repeats it.
func TestKeyIsNeverTold(t *testing.T) {
	echo := quote("your key is " + theKey)
	m, s := asking(t,
		llmtest.JSON(401, `{"error":{"message":`+echo+`,"code":`+echo+`}}`),
		llmtest.Events("data: {\"error\":{\"message\":"+echo+"}}\n\n"),
		llmtest.Events("data: {\"choices\":"+echo+"}\n\n"),
		llmtest.Speak(502, llmtest.EndWell, []string{"<p>Bearer " + theKey + "</p>"}))
	for range 4 {
		_, err := m.Generate(t.Context(), user("go"), func(llm.Delta) {})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)), "canary") {
			t.Errorf("told: %v", err)
		}
	}
	for _, a := range s.Asked() {
		if a.Header.Get("Authorization") != "Bearer "+theKey || bytes.Contains(a.Body, []byte("canary")) {
			t.Errorf("asked %+v", a)
		}
	}
}

// TestParametersThatAServerDoesNotTake: the request comes again without them, and the next one begins without them.
// Azure's deployments have any name, so that the limit's name is not known before.
func TestParametersThatAServerDoesNotTake(t *testing.T) {
	renamed := llmtest.JSON(400, openAIError("Unsupported parameter: 'max_tokens' is not supported with this model. "+
		"Use 'max_completion_tokens' instead.", "invalid_request_error", `"unsupported_parameter"`))
	unknown := llmtest.JSON(400, openAIError("Unrecognized request argument supplied: stream_options", "invalid_request_error", "null"))
	hi := llmtest.Events(events(llm.Response{Message: llm.Message{Text: "Hi."}, StopReason: llm.StopEndTurn, Model: "mine"})...)
	m, s := asking(t, renamed, unknown, hi, hi)
	req := user("go")
	req.Model, req.MaxTokens = "my-deployment", 9
	for range 2 {
		if resp, err := m.Generate(t.Context(), req, func(llm.Delta) {}); err != nil || resp.Text != "Hi." {
			t.Fatalf("got %+v, %v", resp, err)
		}
	}
	var sent []string
	for _, a := range s.Asked() {
		var with []string
		for _, name := range []string{`"max_tokens":9`, `"max_completion_tokens":9`, `"stream_options"`} {
			if bytes.Contains(a.Body, []byte(name)) {
				with = append(with, name)
			}
		}
		sent = append(sent, strings.Join(with, " "))
	}
	if diff := cmp.Diff([]string{
		`"max_tokens":9 "stream_options"`, `"max_completion_tokens":9 "stream_options"`, `"max_completion_tokens":9`, `"max_completion_tokens":9`,
	}, sent); diff != "" {
		t.Errorf("- want, + sent\n%s", diff)
	}
}

// TestARefusalThatNamesAParameterOnlyBesides is an error.
func TestARefusalThatNamesAParameterOnlyBesides(t *testing.T) {
	m, _ := asking(t, llmtest.JSON(400, openAIError("'max_tokens' or 'max_completion_tokens' is too large: 9. It has to be 5 at most.",
		"BadRequestError", "400")))
	req := user("go")
	req.MaxTokens = 9
	if _, err := m.Generate(t.Context(), req, nil); llm.ClassOf(err) != llm.ClassBadRequest {
		t.Errorf("got %v", err)
	}
}

// TestAzure takes the key in a header of its own, and call ids of OpenAI's length.
func TestAzure(t *testing.T) {
	long := strings.Repeat("i", 50)
	req := user("go")
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: long, Name: "look"}}},
		llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: long, Name: "look"}}})
	for base, azure := range map[string]bool{
		"https://mine.openai.azure.com/openai/v1": true, "https://mine.openai.azure.com/openai/deployments/d?api-version=2024-10-21": true,
		"https://mine.services.ai.azure.com/openai/v1": true, "https://mine.cognitiveservices.azure.com/openai/v1": true,
		"https://mine.openai.azure.us/openai/v1": true,
		"https://models.inference.ai.azure.com":  false, "https://openai.azure.com.example/v1": false, "http://localhost/v1": false,
	} {
		var head http.Header
		var body []byte
		m, err := openai.New(openai.Options{BaseURL: base, APIKey: secret.NewValue("k"), Model: "d", HTTP: llmtest.Doer(
			func(r *http.Request) (*http.Response, error) {
				head = r.Header
				body, _ = io.ReadAll(r.Body)
				return nil, errors.New("enough")
			})})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = m.Generate(t.Context(), req, nil)
		want := http.Header{"Authorization": {"Bearer k"}}
		if azure {
			want = http.Header{"Api-Key": {"k"}}
		}
		for _, name := range []string{"Authorization", "Api-Key"} {
			if got := head.Get(name); got != want.Get(name) {
				t.Errorf("%s: %s is %q", base, name, got)
			}
		}
		if bytes.Contains(body, []byte(long)) == azure {
			t.Errorf("%s: %s", base, body)
		}
	}
}

// TestATemplateThatTakesTheSystemFirstOnly, as Qwen's do: notes within the conversation come as a user's then. vLLM
// answers 400, llama.cpp and Ollama 500.
func TestATemplateThatTakesTheSystemFirstOnly(t *testing.T) {
	hi := llmtest.JSON(200, wholeAnswer(llm.Response{Message: llm.Message{Text: "Hi."}, StopReason: llm.StopEndTurn, Model: "qwen"}))
	for _, refusal := range []http.HandlerFunc{
		llmtest.JSON(400, openAIError("Chat template error: System message must be at the beginning.", "invalid_request_error", "null")),
		llmtest.JSON(500, openAIError("Jinja Exception: System message must be at the beginning.", "server_error", "500")),
		llmtest.JSON(500, `{"error":{"message":"system message must be at the beginning","type":"api_error"}}`),
	} {
		m, s := asking(t, refusal, hi, hi)
		for range 2 {
			if resp, err := m.Generate(t.Context(), conversation(), nil); err != nil || resp.Text != "Hi." {
				t.Fatalf("got %+v, %v", resp, err)
			}
		}
		for i, a := range s.Asked() {
			var body struct {
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(a.Body, &body); err != nil {
				t.Fatal(err)
			}
			var roles string
			for _, said := range body.Messages {
				roles += said.Role[:1]
			}
			want := "suatttuau" // the note is the seventh
			if i == 0 {
				want = "suatttsau"
			}
			if note := body.Messages[6].Content; roles != want || !strings.HasSuffix(note, "There is no tool named fly.to the moon.") {
				t.Errorf("request %d has %s, want %s, and the note %q", i, roles, want, note)
			}
		}
	}
}
