package bedrock_test

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/llm"
)

// answered verifies what must be true for every answer, whatever arrived.
func answered(t *testing.T, resp llm.Response, err error) {
	t.Helper()
	if err != nil {
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class == "" || e.Provider != "bedrock" || len(err.Error()) > 3000 {
			t.Errorf("the error is %.300v", err)
		}
		return
	}
	if resp.Role != llm.RoleAssistant || resp.StopReason == "" || resp.Model == "" {
		t.Errorf("the answer is %+v", resp)
	}
}

func FuzzStream(f *testing.F) {
	all := slices.Concat(working()...)
	f.Add(all)
	f.Add(all[:len(all)/2])
	f.Add(slices.Concat(messageStart(), frame("exception", "throttlingException", `{"message":"x"}`)))
	f.Add(slices.Concat(frame("error", "x", ""), all))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var sum sums
		resp, err := through(canned(bytes.NewReader(stream)), "http://bedrock.test").Generate(t.Context(), say("go"), sum.add)
		answered(t, resp, err)
		if err == nil && (sum.text != resp.Text || !slices.Equal(sum.calls, resp.Calls)) {
			t.Errorf("the deltas of %+v add up to %+v", resp, sum)
		}
	})
}

// Fuzzes the payloads of events in valid frames.
func FuzzEvents(f *testing.F) {
	f.Add("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"name":"n","toolUseId":"A"}}}`, "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`)
	f.Add("contentBlockDelta", `{"delta":{"text":"x"}}`, "messageStop", `{"stopReason":"end_turn"}`)
	f.Add("metadata", `{"usage":{"inputTokens":-1}}`, "messageStop", `{"stopReason":null}`)
	f.Fuzz(func(t *testing.T, one, first, two, second string) {
		if len(one)+len(two) > 200 { // names are short
			return
		}
		stream := slices.Concat(messageStart(), event(one, first), event(two, second), messageStop("end_turn"), metadata())
		var sum sums
		resp, err := through(canned(bytes.NewReader(stream)), "http://bedrock.test").Generate(t.Context(), say("go"), sum.add)
		answered(t, resp, err)
		if err == nil && (sum.text != resp.Text || !slices.Equal(sum.calls, resp.Calls)) {
			t.Errorf("the deltas of %+v add up to %+v", resp, sum)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(answerJSON("end_turn", `{"text":"hi"}`, `{"toolUse":{"toolUseId":"A","name":"n","input":{"a":[1]}}}`)))
	f.Add(429, []byte(`{"message":"slow down"}`))
	f.Add(500, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		answer := canned(bytes.NewReader(body))
		m := through(transport(func(r *http.Request) (*http.Response, error) {
			resp, err := answer(r)
			resp.StatusCode = max(100, min(status, 599))
			return resp, err
		}), "http://bedrock.test")
		resp, err := m.Generate(t.Context(), say("go"), nil)
		answered(t, resp, err)
	})
}
