package action

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

//go:embed message.md
var prompt string

// Kind is the kind of conversations that webhooks have with the agent. The turns of a thread run
// one after the other, those of several threads side by side. All that is said is untrusted.
func Kind() turn.Kind {
	return turn.Kind{
		Surface:   trace.Webhook,
		Name:      "webhook",
		Agent:     activity.Operator,
		Persona:   persona.Flowpilot,
		Prompt:    prompt,
		Trust:     execution.Untrusted,
		Multitask: []turn.Multitask{turn.Enqueue},
	}
}

// decideMessage opens the thread of a message, and makes the turn that answers it.
func (t *try) decideMessage(ctx context.Context) error {
	opened, err := t.Threads.Open(ctx, t.claimed.Workspace, thread.Thread{Channel: t.plan.Channel, Address: t.plan.Address})
	if err != nil {
		return fmt.Errorf("open the thread of delivery %s: %w", t.delivery.ID, err)
	}
	text := t.Guard.Redactor(ctx, t.claimed.Workspace).Text(t.plan.Text) // others may quote what nobody may be told
	id, _ := lane.ExecutionOf(t.subject)
	e, kick, err := t.Turns.Written(turn.Turn{
		Surface: trace.Webhook, Lane: lane.Name("session:" + opened.ID), Thread: opened.ID, Message: text, By: "webhook:" + t.delivery.Source,
	}, id, t.delivery.Trace)
	t.message, t.kick = &e, kick
	return err
}
