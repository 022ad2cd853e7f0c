package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Messages are stored. This text may only change in such a way that older rows remain readable.
func TestMessageFormat(t *testing.T) {
	messages := []Message{
		{Role: RoleUser, Text: "hello"},
		{Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "save_memory", Arguments: `{"content": `}}},
		{Role: RoleTool, Results: []ToolResult{{CallID: "1", Name: "save_memory", Content: "broken JSON", IsError: true}}},
		{Role: RoleSystem, Text: "try again"},
	}
	const want = `[{"role":"user","text":"hello"},` +
		`{"role":"assistant","calls":[{"id":"1","name":"save_memory","arguments":"{\"content\": "}]},` +
		`{"role":"tool","results":[{"call_id":"1","name":"save_memory","content":"broken JSON","is_error":true}]},` +
		`{"role":"system","text":"try again"}]`
	got, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestResponseFormat(t *testing.T) {
	got, err := json.Marshal(Response{
		Message:    Message{Role: RoleAssistant, Text: "hi"},
		StopReason: StopEndTurn,
		Usage:      Usage{PromptTokens: 1, CompletionTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4},
		Model:      "m",
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"role":"assistant","text":"hi","stop_reason":"end_turn","usage":{"prompt_tokens":1,` +
		`"completion_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},"model":"m"}`
	if string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Arguments are stored and read back byte for byte, whatever the model writes.
func TestArgumentsSurviveStorage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call := ToolCall{ID: "1", Name: "n", Arguments: Arguments(rapid.String().Draw(t, "arguments"))}
		raw, err := json.Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		var back ToolCall
		if err := json.Unmarshal(raw, &back); err != nil || back != call {
			t.Fatalf("got %+v, %v, want %+v", back, err, call)
		}
	})
}

func TestArgumentsObject(t *testing.T) {
	for arguments, want := range map[Arguments]string{
		``:               `{}`,
		" \n":            `{}`,
		` {"a": 1} `:     `{"a": 1}`,
		`{"a": 1`:        ``,
		`{"a": 1} extra`: ``,
		`[1]`:            ``,
		`null`:           ``,
		`"{}"`:           ``,
	} {
		got, ok := arguments.Object()
		if string(got) != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", arguments, got, ok, want)
		}
	}
}

func TestUsage(t *testing.T) {
	u := Usage{PromptTokens: 1, CompletionTokens: 20, CacheReadTokens: 300, CacheWriteTokens: 4000, MicroUSD: 50_000}
	if u.TotalTokens() != 4321 {
		t.Errorf("total is %d", u.TotalTokens())
	}
	// Uses reflection, so that Plus can't miss a count that is added later.
	sum := reflect.ValueOf(u.Plus(u))
	for i := range sum.NumField() {
		if sum.Field(i).Kind() == reflect.Bool {
			continue
		}
		if got, once := sum.Field(i).Int(), reflect.ValueOf(u).Field(i).Int(); got != 2*once {
			t.Errorf("%s: twice %d is %d", sum.Type().Field(i).Name, once, got)
		}
	}
	guessed := Usage{Estimated: true}
	if !u.Plus(guessed).Estimated || !guessed.Plus(u).Estimated || u.Plus(u).Estimated {
		t.Error("a sum is an estimate where a part of it is")
	}
}

func TestError(t *testing.T) {
	cause := errors.New("slow down")
	err := error(&Error{Class: ClassRateLimit, Provider: "openai", RetryAfter: time.Second, Err: cause})
	if err.Error() != "openai: rate_limit: slow down" || !errors.Is(err, cause) {
		t.Errorf("got %q", err)
	}
	if got := (&Error{Class: ClassRefused, Provider: "openai"}).Error(); got != "openai: refused" {
		t.Errorf("got %q", got)
	}
	for _, test := range []struct {
		err   error
		class ErrorClass
		retry bool
	}{
		{fmt.Errorf("step 3: %w", err), ClassRateLimit, true},
		{&Error{Class: ClassBilling}, ClassBilling, false},
		{fmt.Errorf("x: %w", context.Canceled), ClassCanceled, false},
		{context.DeadlineExceeded, ClassTimeout, true},
		{cause, "", false},
		{nil, "", false},
	} {
		if got := ClassOf(test.err); got != test.class || got.Retryable() != test.retry {
			t.Errorf("%v: got %q, retryable %v", test.err, got, got.Retryable())
		}
	}
}

func TestInterrupted(t *testing.T) {
	alive := context.Background()
	if err := Interrupted(alive, "demo"); err != nil {
		t.Errorf("alive: %v", err)
	}
	lost := errors.New("lost the lane")
	ctx, cancel := context.WithCancelCause(alive)
	cancel(lost)
	err := Interrupted(ctx, "demo")
	if ClassOf(err) != ClassCanceled || !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
		t.Errorf("canceled: %v", err)
	}
	late, cancelLate := context.WithTimeout(alive, -time.Second)
	defer cancelLate()
	err = Interrupted(late, "demo")
	if ClassOf(err) != ClassTimeout || strings.Count(err.Error(), "deadline") != 1 {
		t.Errorf("late: %v", err)
	}
}
