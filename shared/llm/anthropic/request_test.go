package anthropic_test

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
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/anthropic"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// sent returns the request as it is sent, and its body.
func sent(t *testing.T, o anthropic.Options, req llm.Request, onDelta func(llm.Delta)) (r *http.Request, body []byte) {
	t.Helper()
	o.HTTP = llmtest.Doer(func(out *http.Request) (*http.Response, error) {
		r = out
		body, _ = io.ReadAll(out.Body)
		return nil, errors.New("enough")
	})
	o.Model, o.APIKey = "claude-sonnet-4-5", secret.NewValue("k")
	m, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), req, onDelta); r == nil {
		t.Fatalf("sent nothing: %v", err)
	}
	return r, body
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
// errors, notes of the loop, and calls and ids that Anthropic refuses.
func conversation() llm.Request {
	warm := 0.7
	return llm.Request{
		Model:  "claude-opus-4-1",
		System: "You help <people> & agents.",
		Messages: []llm.Message{
			{Role: llm.RoleSystem, Text: "It is Monday."},
			{Role: llm.RoleUser, Text: "How is the weather?"},
			{Role: llm.RoleAssistant, Text: "I look.", Calls: []llm.ToolCall{
				{ID: "toolu_1", Name: "fetch_weather", Arguments: `{"city": "Köln", "when": "<now>"}`},
				{ID: "functions.fly.to:1", Name: "fly.to the moon", Arguments: `{"to": `},
				{ID: "toolu_3", Name: "save_memory"},
			}},
			{Role: llm.RoleSystem, Text: "Be quick."},
			{Role: llm.RoleTool, Results: []llm.ToolResult{
				{CallID: "toolu_1", Name: "fetch_weather", Content: `{"sky":"grey"}`},
				{CallID: "functions.fly.to:1", Name: "fly.to the moon", Content: "broken JSON", IsError: true},
				{CallID: "toolu_3", Name: "save_memory", Content: " ", IsError: true},
			}},
			{Role: llm.RoleSystem, Text: "There is no tool named fly.to the moon."},
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
	_, body := sent(t, anthropic.Options{}, conversation(), nil)
	golden(t, "conversation.json", body)

	later := conversation()
	later.Tools, later.System = nil, " \n" // only a final text is wanted
	later.Messages = append(later.Messages, llm.Message{Role: llm.RoleAssistant, Text: " "},
		llm.Message{Role: llm.RoleAssistant, Text: "It is grey."}, llm.Message{Role: llm.RoleUser}, llm.Message{Role: llm.RoleUser, Text: "Thanks."})
	_, body = sent(t, anthropic.Options{}, later, nil)
	golden(t, "without_tools.json", body)

	_, body = sent(t, anthropic.Options{}, user("Hello."), func(llm.Delta) {})
	golden(t, "streamed.json", body)
}

func TestLimits(t *testing.T) {
	for _, test := range []struct{ option, request, want int }{
		{0, 0, anthropic.DefaultMaxTokens}, {1000, 0, 1000}, {1000, 50, 50}, {0, 50, 50}, {-1, -1, anthropic.DefaultMaxTokens},
	} {
		req := user("go")
		req.MaxTokens = test.request
		if _, body := sent(t, anthropic.Options{MaxTokens: test.option}, req, nil); !strings.Contains(string(body), fmt.Sprintf(`"max_tokens":%d,`, test.want)) {
			t.Errorf("%+v: %s", test, body)
		}
	}
}

// A persona may have a temperature that only other providers take.
func TestTemperature(t *testing.T) {
	for given, want := range map[float64]float64{0: 0, 0.7: 0.7, 1: 1, 1.5: 1, 2: 1} {
		req := user("go")
		req.Temperature = &given
		_, body := sent(t, anthropic.Options{}, req, nil)
		var got struct{ Temperature *float64 }
		if err := json.Unmarshal(body, &got); err != nil || got.Temperature == nil || *got.Temperature != want {
			t.Errorf("%v: %s, %v", given, body, err)
		}
	}
}

func TestWhereRequestsGo(t *testing.T) {
	for base, want := range map[string]string{
		"":                             "https://api.anthropic.com/v1/messages",
		"https://api.anthropic.com/v1": "https://api.anthropic.com/v1/messages",
		"http://localhost:4000/":       "http://localhost:4000/v1/messages",
		"http://localhost:4000/v1/":    "http://localhost:4000/v1/messages",
		"https://proxy.example/claude": "https://proxy.example/claude/v1/messages",
	} {
		r, _ := sent(t, anthropic.Options{BaseURL: base}, user("go"), nil)
		h := r.Header
		if r.URL.String() != want || h.Get("X-Api-Key") != "k" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%q: %s %v", base, r.URL, h)
		}
	}
}

// For any conversation, roles alternate, results come first, nothing is blank, and names, ids and
// inputs have the form that Anthropic accepts.
func TestRequestsProperty(t *testing.T) {
	var body []byte
	m := model(t, "http://host.invalid", llmtest.Doer(func(out *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(out.Body)
		return nil, errors.New("enough")
	}))
	name := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	texts := rapid.OneOf(rapid.SampledFrom([]string{"", " \n", "a", "toolu_1", `{"a":1}`, "\xff"}), rapid.String())
	rapid.Check(t, func(rt *rapid.T) {
		text := func(label string) string { return texts.Draw(rt, label) }
		req := llm.Request{System: text("system")}
		var last []llm.ToolCall
		for range rapid.IntRange(0, 6).Draw(rt, "messages") {
			in := llm.Message{Role: rapid.SampledFrom([]llm.Role{"user", "assistant", "tool", "system"}).Draw(rt, "role")}
			switch in.Role {
			case llm.RoleTool:
				for _, c := range last {
					in.Results = append(in.Results, llm.ToolResult{CallID: c.ID, Content: text("content"), IsError: rapid.Bool().Draw(rt, "error")})
				}
			case llm.RoleAssistant:
				for range rapid.IntRange(0, 2).Draw(rt, "calls") {
					in.Calls = append(in.Calls, llm.ToolCall{ID: text("id"), Name: text("name"), Arguments: llm.Arguments(text("arguments"))})
				}
				last = in.Calls
				fallthrough
			default:
				in.Text = text("text")
			}
			req.Messages = append(req.Messages, in)
		}
		_, _ = m.Generate(t.Context(), req, nil)
		var out struct {
			System   []struct{ Text string }
			Messages []struct {
				Role    string
				Content []struct {
					Type, Text, ID, Name, Content string
					ToolUseID                     string          `json:"tool_use_id"`
					Input                         json.RawMessage `json:"input"`
				}
			}
		}
		if err := json.Unmarshal(body, &out); err != nil {
			rt.Fatalf("%v: %s", err, body)
		}
		for _, s := range out.System {
			if strings.TrimSpace(s.Text) == "" {
				rt.Fatalf("blank: %s", body)
			}
		}
		for i, message := range out.Messages {
			if i > 0 && message.Role == out.Messages[i-1].Role || len(message.Content) == 0 {
				rt.Fatalf("message %d: %s", i, body)
			}
			rest := false
			for _, b := range message.Content {
				sound := false
				switch b.Type {
				case "text":
					rest, sound = true, strings.TrimSpace(b.Text) != ""
				case "tool_use":
					rest, sound = true, message.Role == "assistant" && name.MatchString(b.ID) && name.MatchString(b.Name) && b.Input[0] == '{'
				case "tool_result":
					sound = !rest && message.Role == "user" && name.MatchString(b.ToolUseID) && strings.TrimSpace(b.Content) != ""
				}
				if !sound {
					rt.Fatalf("%+v in %s", b, body)
				}
			}
		}
	})
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
	for _, o := range []anthropic.Options{
		{}, {APIKey: key}, {Model: "m"}, {Model: "m", BaseURL: "https://api.anthropic.com/v1"}, {Model: "m", BaseURL: "localhost/canary"},
		{Model: "m", BaseURL: "https://canary:canary@host"}, {Model: "m", APIKey: secret.NewValue("canary\r\nX-Other: 1")},
	} {
		if _, err := anthropic.New(o); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	m, err := anthropic.New(anthropic.Options{Model: "m", APIKey: key})
	if err != nil || m.Name() != "anthropic" || strings.Contains(fmt.Sprintf("%+v %#v", m, m), "canary") {
		t.Errorf("got %+v, %v", m, err)
	}
}

// The key is sent in its header only, and never shown, even if the server repeats it.
func TestKeyIsNeverTold(t *testing.T) {
	echo := quote("your key is " + theKey)
	m, s := asking(t,
		llmtest.JSON(401, `{"type":"error","error":{"type":"authentication_error","message":`+echo+`}}`),
		llmtest.Events(event("error", `,"error":{"type":`+echo+`,"message":`+echo+`}`)),
		llmtest.Events("data: {\"delta\":"+echo+"}\n\n"),
		llmtest.Speak(502, llmtest.EndWell, []string{"<p>x-api-key: " + theKey + "</p>"}))
	for range 4 {
		_, err := m.Generate(t.Context(), user("go"), func(llm.Delta) {})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)), "canary") {
			t.Errorf("told: %v", err)
		}
	}
	for _, a := range s.Asked() {
		if a.Header.Get("X-Api-Key") != theKey || bytes.Contains(a.Body, []byte("canary")) {
			t.Errorf("asked %+v", a)
		}
	}
}
