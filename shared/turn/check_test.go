package turn_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/approval"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// onChecked is onVisits where the visitors' persona names an output check.
func onChecked(t *testing.T, check string, fn func(t *testing.T, v visitor)) {
	t.Helper()
	onVisits(t, func(t *testing.T, v visitor) {
		v.Kinds[len(v.Kinds)-1].Persona = persona.VisitorChat
		err := v.DB.Tx(t.Context(), v.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := v.Personas.Put(ctx, tx, persona.Persona{Name: persona.VisitorChat, Version: -1, OutputCheck: check, CreatedBy: "user:ada"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		fn(t, v)
	})
}

// told runs a turn of a visitor and returns what was streamed of it.
func (v visitor) told(t *testing.T, message string) (string, turn.Reply) {
	t.Helper()
	var told strings.Builder
	s := v.visit(t.Context(), turn.Turn{Message: message, Address: "ann", Tell: func(e turn.Event) { told.WriteString(e.Text) }})
	r := s.end(t)
	return told.String(), r
}

// journaled returns whether an execution's journal has a text.
func (v visitor) journaled(t *testing.T, id, text string) bool {
	t.Helper()
	return slices.ContainsFunc(must(v.Runs.Journal(t.Context(), v.Workspace, id, 0))(t), func(e execution.Entry) bool {
		return strings.Contains(string(e.Body), text)
	})
}

// TestAnOutputCheckSeesEachAnswer before anybody is told of it: it lets the answer pass, or has
// another text take its place in stream, reply, thread and journal.
func TestAnOutputCheckSeesEachAnswer(t *testing.T) {
	onChecked(t, "judge", func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("Hello ", "Ann."), llmtest.Writes("The code is 1234."), llmtest.Writes("Bye.")))
		v.verdicts = []any{map[string]string{"verdict": "pass"}, map[string]string{"verdict": "redact", "text": "The code is secret."},
			map[string]string{"text": `{"verdict":"pass"}`}}
		for _, c := range []struct{ message, want string }{{"Hi.", "Hello Ann."}, {"The code?", "The code is secret."}, {"Bye.", "Bye."}} {
			told, r := v.told(t, c.message)
			if told != c.want || r.Answer != c.want || r.Status != execution.Completed {
				t.Errorf("%s: told is %q, the reply is %+v", c.message, told, r)
			}
			if v.journaled(t, r.Execution, "1234") || !v.journaled(t, r.Execution, c.want) {
				t.Errorf("%s: the journal has not what was told", c.message)
			}
		}
		var last struct {
			Answer   string
			Messages []struct{ Role, Text string }
		}
		if err := json.Unmarshal([]byte(v.judged[2]), &last); err != nil || last.Answer != "Bye." || len(last.Messages) != 5 ||
			last.Messages[3].Text != "The code is secret." || last.Messages[4].Role != "user" {
			t.Errorf("the check saw %s", v.judged[2])
		}
		if lines := v.actions(t, "judge"); len(lines) != 3 {
			t.Errorf("%d lines of the activity log", len(lines))
		}
	})
}

// TestAHeldAnswerWaitsForAPerson: nobody is told of it before; then it comes into the conversation,
// as the person has edited it, once.
func TestAHeldAnswerWaitsForAPerson(t *testing.T) {
	onChecked(t, "judge", func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("Your refund is 900."), llmtest.Writes("Your refund is 900.")))
		v.verdicts = []any{map[string]string{"verdict": "hold", "reason": "it names money"}}
		told, r := v.told(t, "My refund?")
		if told != turn.Held || r.Answer != turn.Held || r.Status != execution.Completed || v.journaled(t, r.Execution, "900") {
			t.Errorf("told is %q, the reply is %+v", told, r)
		}
		waits := func() []approval.Approval {
			found, _, err := v.Approvals.List(t.Context(), v.Workspace, approval.Filter{Status: approval.Pending})
			return must(found, err)(t)
		}
		found := waits()
		if len(found) != 1 || found[0].Skill != thread.SendMessage || !strings.Contains(found[0].Why, "it names money") || !found[0].Untrusted {
			t.Fatalf("what waits is %+v", found)
		}
		edited := strings.Replace(string(found[0].Arguments), "900", "90", 1)
		must(v.Approvals.Approve(t.Context(), v.Workspace, found[0].ID, "user:ada", json.RawMessage(edited)))(t)
		if got := v.drain(t); got.Failed+got.Retried != 0 {
			t.Errorf("sent %+v", got)
		}
		if got := v.spoken(t, r.Thread); !slices.Equal(got, []string{"user: My refund?", "assistant: " + turn.Held, "assistant: Your refund is 90."}) {
			t.Errorf("the thread is %q", got)
		}
		_, again := v.told(t, "And now?")
		must(v.Approvals.Reject(t.Context(), v.Workspace, waits()[0].ID, "user:ada", "no"))(t)
		v.drain(t)
		if got := v.spoken(t, again.Thread); len(got) != 5 || got[4] != "assistant: "+turn.Held {
			t.Errorf("after a rejection the thread is %q", got)
		}
		v.mustBeFree(t)
	})
}

// TestAnAnswerThatCannotBeCheckedWaits: the check fails, says nothing clear, is not there, or can't be one.
func TestAnAnswerThatCannotBeCheckedWaits(t *testing.T) {
	for _, c := range []struct {
		name, check string
		verdict     any
	}{
		{"fails", "judge", func() error { return errors.New("it is down") }}, {"says nothing clear", "judge", map[string]string{"verdict": "maybe"}},
		{"says nothing to tell instead", "judge", map[string]string{"verdict": "redact"}}, {"is no object", "judge", "pass"},
		{"is not there", "jury", nil}, {"works in the database", "note", nil}, {"takes something else", "knock", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onChecked(t, c.check, func(t *testing.T, v visitor) {
				if c.check == "knock" {
					close(v.opened)
				}
				v.verdicts = []any{c.verdict}
				v.think(llmtest.Write(t, llmtest.Writes("The code is 1234.")))
				told, r := v.told(t, "The code?")
				waits, _, err := v.Approvals.List(t.Context(), v.Workspace, approval.Filter{Status: approval.Pending})
				if err != nil || told != turn.Held || r.Answer != turn.Held || len(waits) != 1 || v.journaled(t, r.Execution, "1234") {
					t.Errorf("told is %q, the reply is %+v, and %d wait: %v", told, r, len(waits), err)
				}
			})
		})
	}
}

// TestAKilledCheckIsAskedAgain: an answer whose check was cut off was told to nobody.
func TestAKilledCheckIsAskedAgain(t *testing.T) {
	onChecked(t, "judge", func(t *testing.T, v visitor) {
		v.think(llmtest.Write(t, llmtest.Writes("One."), llmtest.Writes("Two.")))
		ctx, cancel := context.WithCancel(t.Context())
		v.verdicts = []any{func() error { cancel(); return errors.New("the process ends") }, map[string]string{"verdict": "pass"}}
		s := v.says(ctx, "Hi.", turn.Enqueue)
		<-s.ended
		for range 10 {
			v.Skew.Advance(60e9)
			v.drain(t)
		}
		if got := v.spoken(t, v.thread); !slices.Equal(got, []string{"user: Hi.", "assistant: Two."}) {
			t.Errorf("the thread is %q", got)
		}
		v.mustBeFree(t)
	})
}
