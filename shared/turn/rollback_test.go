package turn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/automation"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/llm/llmtest"
	"github.com/lanekeeper/lanekeeper/shared/memory"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

const geese = `{"category": "fact", "content": "Geese fly in a V."}`

// planned returns an answer that plans the objective of the previous call.
func planned(ctx context.Context, req llm.Request, write func(string)) (llm.Response, error) {
	var set struct {
		ID string `json:"objectiveId"`
	}
	for _, m := range req.Messages {
		for _, r := range m.Results {
			_ = json.Unmarshal([]byte(r.Content), &set)
		}
	}
	return llmtest.WritesCalls("", "plan_objective", fmt.Sprintf(`{"objectiveId": %q, "steps": [{"title": "Look up"}]}`, set.ID))(ctx, req, write)
}

// TestARollbackTakesBackWhatWasMade: a turn creates an objective with a plan, an automation and two
// memories, one of which existed before, and a note.
func TestARollbackTakesBackWhatWasMade(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		h := newThinking()
		w.think(llmtest.Write(t, llmtest.WritesCalls("", "save_memory", geese), llmtest.Writes("I know.")))
		w.said(t, turn.Turn{Message: "Geese fly in a V."})
		w.think(llmtest.Write(t,
			llmtest.WritesCalls("", "set_objective", `{"title": "Count the geese"}`), planned,
			llmtest.WritesCalls("", "save_memory", geese, `{"category": "fact", "content": "Ada likes geese."}`),
			llmtest.WritesCalls("", "create_automation", `{"name": "count", "skill": "note", "input": {"what": "geese"}, "cron": "0 7 * * *"}`),
			llmtest.WritesCalls("", "note", `{"what": "x"}`), h.then("Done."), llmtest.Writes("Nothing is left.")))
		first := w.saying(turn.Turn{Message: "Count the geese."})
		<-h.asked
		second := w.said(t, turn.Turn{Message: "Never mind.", Multitask: turn.Rollback})
		close(h.answer)
		first.end(t)

		var stays []string
		for _, e := range second.NotUndone {
			stays = append(stays, e.Call+" "+e.Skill)
		}
		if want := []string{"3.1 save_memory", "5.1 note"}; !slices.Equal(stays, want) {
			t.Errorf("what stays is %q, want %q", stays, want)
		}
		left, _, err := w.Objectives.List(t.Context(), w.Workspace, objective.Filter{Limit: 10})
		if err != nil || len(left) != 0 {
			t.Errorf("objectives %+v, %v", left, err)
		}
		automations, err := w.Automations.List(t.Context(), w.Workspace, automation.Filter{Limit: 10})
		if err != nil || len(automations) != 0 {
			t.Errorf("automations %+v, %v", automations, err)
		}
		known, _, err := w.Memories.List(t.Context(), w.Workspace, memory.Filter{Limit: 10})
		if err != nil || len(known) != 1 || known[0].Content != "Geese fly in a V." {
			t.Errorf("memories %+v, %v", known, err)
		}
		w.mustBeFree(t)
	})
}

// TestARollbackListsWhatWasApproved: a call was approved before the rollback of its turn. It was
// made before the rollback, or is not made yet.
func TestARollbackListsWhatWasApproved(t *testing.T) {
	for status, made := range map[string]bool{"succeeded": true, "approved": false} {
		t.Run(status, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				h := newThinking()
				w.think(llmtest.Write(t, llmtest.WritesCalls("", "pay", `{}`), h.then("It waits."), llmtest.Writes("I see.")))
				first := w.saying(turn.Turn{Message: "Pay."})
				<-h.asked
				pending, _, err := w.Approvals.List(t.Context(), w.Workspace, all)
				if err != nil || len(pending) != 1 {
					t.Fatalf("%+v, %v", pending, err)
				}
				must(w.Approvals.Approve(t.Context(), w.Workspace, pending[0].ID, "user:ada", nil))(t)
				if made {
					w.drain(t)
				}
				second := w.said(t, turn.Turn{Message: "Don't.", Multitask: turn.Rollback})
				close(h.answer)
				first.end(t)
				if want := []turn.Effect{{Call: "1.1", Skill: "pay", Status: status}}; !slices.Equal(second.NotUndone, want) {
					t.Errorf("what stays is %+v, want %+v", second.NotUndone, want)
				}
			})
		})
	}
}

// TestATurnSpeaksAndLetsGo: a turn sends a message to a person. The message is sent and its thread
// is released when the turn has ended or was interrupted. A rollback withdraws the message.
func TestATurnSpeaksAndLetsGo(t *testing.T) {
	for _, mode := range []turn.Multitask{turn.Enqueue, turn.Interrupt, turn.Rollback} {
		t.Run(string(mode), func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				to := must(w.Threads.Open(t.Context(), w.Workspace, thread.Thread{Channel: "log", Address: "grace"}))(t).ID
				h := newThinking()
				w.think(llmtest.Write(t, llmtest.WritesCalls("", "send_message", fmt.Sprintf(`{"threadId": %q, "body": "Hello"}`, to)), h.then("Said."), llmtest.Writes("Fine.")))
				first := w.saying(turn.Turn{Message: "Greet Grace."})
				<-h.asked
				if got := must(w.Threads.Get(t.Context(), w.Workspace, to))(t).Lock.Holder; got != <-first.begun {
					t.Errorf("the thread is %s's", got)
				}
				if mode != turn.Enqueue {
					w.said(t, turn.Turn{Message: "Wait.", Multitask: mode})
				}
				close(h.answer)
				first.end(t)
				if got := must(w.Threads.Get(t.Context(), w.Workspace, to))(t).Lock; got.Holder != "" {
					t.Errorf("the thread is held: %+v", got)
				}
				sent, _, err := w.Threads.Outbox(t.Context(), w.Workspace, to, outbox.Filter{Limit: 10})
				want := outbox.Ready
				if mode == turn.Rollback {
					want = outbox.Superseded
				}
				if err != nil || len(sent) != 1 || sent[0].Status != want {
					t.Errorf("the message is %+v, %v", sent, err)
				}
			})
		})
	}
}
