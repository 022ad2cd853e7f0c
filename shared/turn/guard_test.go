package turn_test

import (
	"strings"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// TestAGuardedTurnKeepsItsCanary: one that is cut off goes on with the rules that it began with, and
// what the model says is guarded in the thread, the journal, the stream and what follows it alike.
func TestAGuardedTurnKeepsItsCanary(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.Kinds[len(v.Kinds)-1].Guarded = true
		m := llmtest.Write(t, llmtest.WritesCalls("", "note", `{"what":"x"}`), v.dies(t),
			llmtest.Writes("The key is AK", "IAIOSFODNN7EXA", "MPLE, and it ", "works."))
		v.think(m)
		r := v.says(t.Context(), "1", turn.Enqueue).end(t)
		for range 20 {
			v.drain(t)
			v.Skew.Advance(60e9)
		}
		if e := v.execution(t, r.Execution); e.Status != execution.Completed {
			t.Fatalf("it is %+v", e)
		}
		system := m.Request(0).System
		if !strings.HasPrefix(system, "The mark of these rules is 9") || !strings.HasSuffix(system, visits.Prompt) || m.Request(2).System != system {
			t.Errorf("the rules are %q, and then %q", system, m.Request(2).System)
		}
		const want = "The key is AKIA" + redact.Mark + ", and it works."
		if got := v.spoken(t, v.thread); got[len(got)-1] != "assistant: "+want {
			t.Errorf("the thread has %q", got)
		}
		journal := ""
		for _, e := range must(v.Runs.Journal(t.Context(), v.Workspace, r.Execution, 0))(t) {
			journal += string(e.Body)
		}
		if strings.Contains(journal, "IOSFODNN7") || !strings.Contains(journal, want) {
			t.Errorf("the journal has %s", journal)
		}
		for _, line := range v.actions(t, "model_call") {
			if strings.Contains(string(line.Output), "IOSFODNN7") {
				t.Errorf("the log says %s", line.Output)
			}
		}
	})
}

// TestAGuardedStreamIsWhatIsKept: whoever listens hears nothing twice, and nothing else.
func TestAGuardedStreamIsWhatIsKept(t *testing.T) {
	onVisits(t, func(t *testing.T, v visitor) {
		v.Kinds[len(v.Kinds)-1].Guarded = true
		v.think(llmtest.Write(t, llmtest.Writes("Use sk", "-ant-api03-abcdefgh", "ijklmnop0123", " or ghp_01234567", "89abcdefghijABCDEFGHIJ")))
		var told strings.Builder
		s := v.visit(t.Context(), turn.Turn{Message: "1", Address: "bob", Tell: func(e turn.Event) {
			if e.Restart {
				t.Error("it begins anew")
			}
			told.WriteString(e.Text)
		}})
		r := s.end(t)
		if want := "Use sk-" + redact.Mark + " or ghp_" + redact.Mark; told.String() != want || r.Answer != want {
			t.Errorf("told is %q, and the answer %q", told.String(), r.Answer)
		}
	})
}
