package bedrock_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/bedrock"
)

var update = flag.Bool("update", false, "write the golden files anew")

var offered = []llm.Tool{
	{Name: "query_activity", Description: "Looks into the log.", Parameters: json.RawMessage(`{"type": "object", "required": ["limit"], "properties": {"limit": {"type": "integer", "maximum": 12345678901234567890}, "a": {}}}`)},
	{Name: "list_skills"},
}

// A persona may have a temperature that only other providers take.
func TestTemperature(t *testing.T) {
	for given, want := range map[float64]float64{0: 0, 0.5: 0.5, 1: 1, 1.5: 1, 2: 1} {
		s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
		req := say("go")
		req.Temperature = &given
		if _, err := s.model.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		var got struct {
			InferenceConfig struct{ Temperature *float64 }
		}
		body := s.requests()[0].body
		if err := json.Unmarshal(body, &got); err != nil || got.InferenceConfig.Temperature == nil || *got.InferenceConfig.Temperature != want {
			t.Errorf("%v: %s, %v", given, body, err)
		}
	}
}

// The requests of a conversation from beginning to end, as they are sent.
func TestRequests(t *testing.T) {
	temperature := 0.5
	called := llm.Message{Role: llm.RoleAssistant, Text: "I look.", Calls: []llm.ToolCall{
		{ID: "call_1", Name: "query_activity", Arguments: `{"limit": 10, "z": 1.0, "a": 12345678901234567890, "t": "<&>"}`},
		{ID: "call_2", Name: "list_skills", Arguments: ""},
	}}
	results := llm.Message{Role: llm.RoleTool, Results: []llm.ToolResult{
		{CallID: "call_1", Name: "query_activity", Content: `{"entries":[]}`},
		{CallID: "call_2", Name: "list_skills", Content: "it failed", IsError: true},
	}}
	user := func(text string) llm.Message { return llm.Message{Role: llm.RoleUser, Text: text} }
	for name, c := range map[string]struct {
		cfg bedrock.Config
		req llm.Request
	}{
		"plain": {req: say("hello")},
		"everything": {
			cfg: bedrock.Config{Model: model},
			req: llm.Request{
				Model: "us.anthropic.claude-3-7-sonnet-20250219-v1:0", System: "You are an agent.", MaxTokens: 4096, Temperature: &temperature,
				Tools:    offered,
				Messages: []llm.Message{user("go"), called, results, {Role: llm.RoleAssistant, Text: "Done."}, user("and now?")},
			},
		},
		// A note comes after the results that it comments on. Two notes and a user's message become
		// one message.
		"notes": {req: llm.Request{Tools: offered, Messages: []llm.Message{
			{Role: llm.RoleSystem, Text: "be brief"}, user("go"), called, {Role: llm.RoleSystem, Text: "in between"}, results,
			{Role: llm.RoleSystem, Text: "try again"}, user("please"),
		}}},
		"blanks": {req: llm.Request{System: " \n", Tools: offered, Messages: []llm.Message{
			user("one"), {Role: llm.RoleAssistant, Text: " \n"}, user("two"), {Role: llm.RoleSystem}, {Role: llm.RoleAssistant, Text: "a"},
			{Role: llm.RoleAssistant, Text: "b"}, {Role: llm.RoleAssistant, Calls: called.Calls[:1]},
			{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: "call_1", Name: "query_activity", Content: " "}}},
		}}},
		"broken arguments": {req: llm.Request{Tools: offered, Messages: []llm.Message{
			user("go"),
			{Role: llm.RoleAssistant, Calls: []llm.ToolCall{
				{ID: "a", Name: "query_activity", Arguments: `{"limit": `}, {ID: "b", Name: "query_activity", Arguments: `[1]`},
				{ID: "c", Name: "query_activity", Arguments: `null`}, {ID: "d", Name: "query_activity", Arguments: " \n"},
				{ID: "e", Name: "query_activity", Arguments: `{"": {}, "list": [], "none": null}`},
			}},
			{Role: llm.RoleTool, Results: []llm.ToolResult{
				{CallID: "a", Content: "1", IsError: true}, {CallID: "b", Content: "2", IsError: true}, {CallID: "c", Content: "3", IsError: true},
				{CallID: "d", Content: "4"}, {CallID: "e", Content: "5"},
			}},
		}}},
		"foreign names": {req: llm.Request{Tools: offered, Messages: []llm.Message{
			user("go"),
			{Role: llm.RoleAssistant, Calls: []llm.ToolCall{
				{ID: "functions.query:0", Name: "functions.query activity☕"}, {ID: "call_1", Name: ""}, {ID: "", Name: strings.Repeat("n", 70)},
			}},
			{Role: llm.RoleTool, Results: []llm.ToolResult{{CallID: "functions.query:0", Content: "1"}, {CallID: "call_1", Content: "2"}, {CallID: "", Content: "3"}}},
		}}},
		"no tools": {req: llm.Request{Messages: []llm.Message{user("go"), called, results}}},
		"nova":     {req: llm.Request{Model: "amazon.nova-pro-v1:0", System: "You are an agent.", Tools: offered, Messages: []llm.Message{user("go")}}},
		"no cache": {
			cfg: bedrock.Config{Cache: bedrock.CacheNever},
			req: llm.Request{System: "You are an agent.", Tools: offered, Messages: []llm.Message{user("go")}},
		},
		"a profile": {
			cfg: bedrock.Config{Cache: bedrock.CacheAlways},
			req: llm.Request{
				Model:  "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc",
				System: "You are an agent.", Tools: offered, Messages: []llm.Message{user("go"), {Role: llm.RoleAssistant, Text: "It is"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
			streams := serve(t, streaming(working()...))
			if c.cfg.Model == "" {
				c.cfg.Model = model
			}
			if _, err := s.with(c.cfg).Generate(t.Context(), c.req, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := streams.with(c.cfg).Generate(t.Context(), c.req, func(llm.Delta) {}); err != nil {
				t.Fatal(err)
			}
			sent := s.requests()[0]
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, sent.body, "", "  "); err != nil {
				t.Fatalf("%v in %s", err, sent.body)
			}
			got := "POST " + sent.path + "\n" + pretty.String() + "\n"
			file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the request (- want, + got); -update writes it anew:\n%s", diff)
			}
			if again := streams.requests()[0]; !bytes.Equal(again.body, sent.body) || again.path != sent.path+"-stream" {
				t.Errorf("for a stream it is %s %s", again.path, again.body)
			}
		})
	}
}

func TestASchemaThatIsNone(t *testing.T) {
	s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
	req := say("hello")
	req.Tools = []llm.Tool{{Name: "x", Parameters: json.RawMessage(`{"type":`)}}
	if _, err := s.model.Generate(t.Context(), req, nil); llm.ClassOf(err) != llm.ClassBadRequest || len(s.requests()) > 0 {
		t.Errorf("got %v", err)
	}
}

// Which models are known to have a cache. Other models refuse a request with a cache point.
func TestCachePoints(t *testing.T) {
	for id, want := range map[string]int{
		"anthropic.claude-3-5-haiku-20241022-v1:0": 3, "eu.anthropic.claude-sonnet-4-20250514-v1:0": 3, "global.anthropic.claude-opus-4-5-20251101-v1:0": 3,
		"arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-20250514-v1:0": 3,
		"us.amazon.nova-lite-v1:0": 2,
		"anthropic.claude-v2:1":    0, "anthropic.claude-3-haiku-20240307-v1:0": 0, "anthropic.claude-3-5-sonnet-20240620-v1:0": 0,
		"anthropic.claude-3-sonnet-20240229-v1:0": 0, "anthropic.claude-3-opus-20240229-v1:0": 0, "anthropic.claude-instant-v1": 0,
		"meta.llama3-3-70b-instruct-v1:0": 0, "mistral.mistral-large-2407-v1:0": 0, "openai.gpt-oss-120b-1:0": 0,
		"arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/abc": 0,
	} {
		s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
		req := llm.Request{Model: id, System: "x", Tools: offered, Messages: say("go").Messages}
		if _, err := s.model.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(s.requests()[0].body), "cachePoint"); got != want {
			t.Errorf("%s: %d cache points, want %d", id, got, want)
		}
	}
}

// with returns a model like the server's with another configuration.
func (s *server) with(cfg bedrock.Config) *bedrock.Model {
	cfg.AWS = s.aws
	return bedrock.New(cfg)
}

// The strict requirements of Bedrock, for its own message types.
type sent struct {
	Messages []struct {
		Role    string
		Content []struct {
			Text       *string
			CachePoint *struct{ Type string }
			ToolUse    *struct {
				ToolUseID, Name string
				Input           map[string]any
			}
			ToolResult *struct {
				ToolUseID, Status string
				Content           []struct{ Text string }
			}
		}
	}
	ToolConfig *struct{ Tools []any }
}

var acceptable = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// refuses returns why Bedrock would refuse a request, or "".
func refuses(body []byte) string {
	var s sent
	if err := json.Unmarshal(body, &s); err != nil {
		return err.Error()
	}
	if !utf8.Valid(body) {
		return "not UTF-8"
	}
	open := map[string]bool{}
	for i, m := range s.Messages {
		if i > 0 && m.Role == s.Messages[i-1].Role {
			return fmt.Sprintf("message %d: two of role %s in a row", i, m.Role)
		}
		if len(m.Content) == 0 {
			return fmt.Sprintf("message %d is empty", i)
		}
		answered, other := 0, false
		for _, c := range m.Content {
			switch {
			case c.Text != nil:
				if other = true; strings.TrimSpace(*c.Text) == "" {
					return fmt.Sprintf("message %d: a blank text", i)
				}
			case c.ToolUse != nil:
				if !acceptable.MatchString(c.ToolUse.Name) || !acceptable.MatchString(c.ToolUse.ToolUseID) || m.Role != "assistant" || c.ToolUse.Input == nil {
					return fmt.Sprintf("message %d: a bad call: %+v", i, c.ToolUse)
				}
				open[c.ToolUse.ToolUseID] = true
			case c.ToolResult != nil:
				if other || !open[c.ToolResult.ToolUseID] || m.Role != "user" || len(c.ToolResult.Content) != 1 ||
					c.ToolResult.Status != "" && c.ToolResult.Status != "error" { // some models refuse the field
					return fmt.Sprintf("message %d: a bad result: %+v", i, c.ToolResult)
				}
				answered++
			case c.CachePoint == nil:
				return fmt.Sprintf("message %d: a block that is none", i)
			}
			if s.ToolConfig == nil && (c.ToolUse != nil || c.ToolResult != nil) {
				return "calls without tools"
			}
		}
		if m.Role == "user" && answered != len(open) {
			return fmt.Sprintf("message %d: %d results of %d", i, answered, len(open))
		}
		if m.Role == "user" {
			clear(open)
		}
	}
	return ""
}

// Bedrock accepts any conversation in which every call has its result.
func TestAnyConversationIsTaken(t *testing.T) {
	var body []byte
	s := serve(t, whole(answerJSON("end_turn", `{"text":"hi"}`)))
	odd := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "call_1", "a\xffb", "x\x00", "{}", `{"a":1}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":`, `{"":{}}`}))
	rapid.Check(t, func(t *rapid.T) {
		req := llm.Request{System: odd.Draw(t, "system")}
		if rapid.Bool().Draw(t, "tools") {
			req.Tools = offered
		}
		calls := 0
		for range rapid.IntRange(1, 8).Draw(t, "messages") {
			role := rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleSystem}).Draw(t, "role")
			m := llm.Message{Role: role, Text: odd.Draw(t, "text")}
			results := llm.Message{Role: llm.RoleTool}
			if role == llm.RoleAssistant {
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					calls++
					id := odd.Draw(t, "id") + fmt.Sprint("#", calls)
					m.Calls = append(m.Calls, llm.ToolCall{ID: id, Name: odd.Draw(t, "name"), Arguments: llm.Arguments(odd.Draw(t, "arguments"))})
					results.Results = append(results.Results, llm.ToolResult{CallID: id, Content: odd.Draw(t, "content"), IsError: rapid.Bool().Draw(t, "failed")})
				}
			}
			if req.Messages = append(req.Messages, m); len(m.Calls) > 0 {
				req.Messages = append(req.Messages, results)
			}
		}
		before, _ := json.Marshal(req)
		if _, err := s.model.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		asked := s.requests()
		body = asked[len(asked)-1].body
		if why := refuses(body); why != "" {
			t.Fatalf("%s\n%s", why, body)
		}
		if after, _ := json.Marshal(req); !bytes.Equal(before, after) {
			t.Fatal("the request was changed")
		}
	})
}
