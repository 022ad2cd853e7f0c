package operate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/surface/operate"
)

// put stores a version of the operator's persona.
func (w *world) put(t testing.TB, p persona.Persona) persona.Persona {
	t.Helper()
	p.Version, p.CreatedBy = -1, "user:ada"
	err := w.Env.DB.Tx(t.Context(), w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = w.Personas.Put(ctx, tx, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATurnWorksByItsPersona(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := llmtest.Write(t, llmtest.Writes("Hello."), llmtest.Writes("Salut."), llmtest.Writes("Hallo."), llmtest.Writes("Ahoi."), llmtest.Writes("Salut."))
		w.think(m)
		before := w.said(t, "Hello.")
		frame := m.Request(0).System
		if e := w.execution(t, before.Execution); e.Persona != persona.Flowpilot || e.PersonaVersion == nil || *e.PersonaVersion != 0 {
			t.Errorf("at first it works by %s %v", e.Persona, e.PersonaVersion)
		}
		cool := 0.2
		w.put(t, persona.Persona{
			Name: persona.Flowpilot, DisplayName: "Mia", Instructions: "Answer in one word.", Model: "other-model", Temperature: &cool,
			Skills: []string{"note", "unknown"},
		})
		after := w.said(t, "Hello again.")
		req := m.Request(1)
		if !strings.HasPrefix(req.System, strings.TrimRight(frame, "\n")) || !strings.Contains(req.System, "Answer in one word.") || !strings.Contains(req.System, "Mia") {
			t.Errorf("the prompt is %q", req.System)
		}
		var tools []string
		for _, tool := range req.Tools {
			tools = append(tools, tool.Name)
		}
		if diff := cmp.Diff([]string{"note"}, tools); diff != "" || req.Model != "other-model" || req.Temperature == nil || *req.Temperature != cool {
			t.Errorf("model %q, temperature %v, tools %s", req.Model, req.Temperature, diff)
		}
		if e := w.execution(t, after.Execution); *e.PersonaVersion != 1 {
			t.Errorf("it works by version %d", *e.PersonaVersion)
		}

		other := w.put(t, persona.Persona{Name: "pirate", Instructions: "Speak like a pirate."})
		variation := operate.Variation{Persona: other.Name}
		replayed, err := w.Replay(t.Context(), w.Workspace, after.Trace, "", variation)
		if err != nil || len(replayed) != 1 {
			t.Fatalf("%+v, %v", replayed, err)
		}
		if got := m.Request(2); got.System != other.System(frame) || got.Model != "" {
			t.Errorf("replayed by %q on %q", got.System, got.Model)
		}
		fork, err := w.Fork(t.Context(), w.Workspace, after.Trace, "", 1, operate.Edits{Persona: other.Name})
		if err != nil {
			t.Fatal(err)
		}
		w.drain(t)
		if got := m.Request(3); got.System != other.System(frame) {
			t.Errorf("forked by %q", got.System)
		}
		same, err := w.Replay(t.Context(), w.Workspace, after.Trace, after.Execution, operate.Variation{})
		if got := m.Request(4); err != nil || len(same) != 1 || got.System != req.System || got.Model != "other-model" || *got.Temperature != cool {
			t.Errorf("repeated by %q on %q at %v, %v", got.System, got.Model, got.Temperature, err)
		}
		if e := w.execution(t, fork.ID); e.Persona != "pirate" || *e.PersonaVersion != 1 {
			t.Errorf("the fork works by %s %d", e.Persona, *e.PersonaVersion)
		}
	})
}

// TestAResumedTurnKeepsItsPersona: it was begun without skills, and the persona was changed since.
func TestAResumedTurnKeepsItsPersona(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		m := llmtest.Write(t, w.dies(t), llmtest.Writes("Back."))
		w.think(m)
		w.put(t, persona.Persona{Name: persona.Flowpilot, Instructions: "First words.", Skills: []string{}})
		cut := w.said(t, "Hello.")
		w.put(t, persona.Persona{Name: persona.Flowpilot, Instructions: "Second words."})
		w.Skew.Advance(time.Hour)
		w.drain(t)
		if e := w.execution(t, cut.Execution); e.Status != execution.Completed {
			t.Fatalf("it is %+v", e)
		}
		if got := m.Request(1); len(got.Tools) != 0 || !strings.Contains(got.System, "First words.") {
			t.Errorf("it goes on with %d skills by %q", len(got.Tools), got.System)
		}
	})
}
