package reason_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/reason"
)

// A summary replaces the messages that it was made from, whether or not the version that made it
// asked again after an empty answer.
func TestAJournalWithAnEmptyAnswerFoldsAsItWasWritten(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		model := func(text, call string) string {
			m := llm.Message{Role: llm.RoleAssistant, Text: text}
			if call != "" {
				m.Calls = []llm.ToolCall{{ID: call, Name: "echo_back", Arguments: `{"text":"x"}`}}
			}
			raw, _ := json.Marshal(map[string]any{"message": m, "usage": llm.Usage{PromptTokens: 10, CompletionTokens: 5}, "model": "m", "stop_reason": llm.StopEndTurn})
			return string(raw)
		}
		result := func(call string) string {
			return fmt.Sprintf(`{"call":{"id":%[1]q,"name":"echo_back","arguments":"{}"},"skill":"echo_back","result":{"call_id":%[1]q,"name":"echo_back","content":"x"}}`, call)
		}
		input := func(text string) string {
			return fmt.Sprintf(`{"messages":[{"role":"user","text":%q}],"skills":["echo_back"]}`, text)
		}
		type entry struct {
			kind       execution.Kind
			step       int
			call, body string
		}
		worked := []entry{
			{execution.Model, 2, "", model("", "c1")}, {execution.Result, 2, "2.1", result("c1")},
			{execution.Model, 3, "", model("", "c2")}, {execution.Result, 3, "3.1", result("c2")},
			{execution.Note, 3, "", `{"from":1,"to":5,"summary":"S"}`},
			{execution.Model, 4, "", model("done", "")},
		}
		begun := []entry{{execution.Input, 0, "", input("Begin.")}, {execution.Model, 1, "", model("", "")}}
		for name, c := range map[string]struct {
			entries []entry
			note    bool // the second request asks again
		}{
			"by a build that did not ask again": {slices.Concat(begun, []entry{{execution.Input, 1, "", input("Go on.")}}, worked), false},
			"by one that did":                   {slices.Concat(begun, worked), true},
		} {
			job := w.job(t, echo())
			err := w.lanes.InHold(t.Context(), job.Hold, func(_ context.Context, tx lane.Tx) error {
				for i, e := range c.entries {
					entry := execution.Entry{Seq: i + 1, Step: e.step, Kind: e.kind, Status: execution.Succeeded, Call: e.call, Body: json.RawMessage(e.body)}
					if err := w.runs.Append(tx, job.Execution, entry); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			m := llmtest.Script(t, llmtest.Say("1"), llmtest.Say("2"), llmtest.Say("3"), llmtest.Say("4"))
			if _, err := w.runner(m).Replay(t.Context(), w.Workspace, job.Execution, job.Skills, reason.Variation{}); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			roles := func(req llm.Request) (out []llm.Role) {
				for _, m := range req.Messages {
					out = append(out, m.Role)
				}
				return out
			}
			asked := m.Requests()
			if got := roles(asked[1]); !slices.Equal(got, []llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleUser}) ||
				strings.Contains(asked[1].Messages[2].Text, "A note of Lanekeeper") != c.note {
				t.Errorf("%s: the second request is %+v", name, asked[1].Messages)
			}
			last := asked[3]
			if got := roles(last); !slices.Equal(got, []llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool}) ||
				!strings.HasSuffix(last.Messages[0].Text, "S") || last.Messages[1].Calls[0].ID != "c2" {
				t.Errorf("%s: the last request is %+v", name, last.Messages)
			}
		}
	})
}
