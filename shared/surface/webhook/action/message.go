package action

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/halt"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/thread"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

//go:embed message.md
var prompt string

// Kind returns the kind of conversations that webhooks have with the agent. The turns of a thread
// run one after the other, and those of different threads concurrently. All messages are untrusted.
// Answers are sent over the channel of their thread if that can deliver them.
func Kind(deliverable func(channel, address, body string) error) turn.Kind {
	return turn.Kind{
		Surface:   trace.Webhook,
		Name:      "webhook",
		Agent:     activity.Operator,
		Persona:   persona.Flowpilot,
		Prompt:    prompt,
		Trust:     execution.Untrusted,
		Multitask: []turn.Multitask{turn.Enqueue},
		Guarded:   true,
		Waits:     true,

		Deliverable: deliverable,
	}
}

// decideMessage opens the thread of a message and creates the turn that answers it.
func (t *try) decideMessage(ctx context.Context) error {
	opened, err := t.Threads.Open(ctx, t.claimed.Workspace, thread.Thread{Channel: t.plan.Channel, Address: t.plan.Address})
	if err != nil {
		return fmt.Errorf("open the thread of delivery %s: %w", t.delivery.ID, err)
	}
	id, _ := lane.ExecutionOf(t.subject)
	t.session = lane.Name("session:" + opened.ID)
	if err := t.room(ctx, t.session, id); err != nil {
		return err
	}
	text := t.Guard.Redactor(ctx, t.claimed.Workspace).Text(t.plan.Text) // others may quote secrets
	e, kick, err := t.Turns.Written(turn.Turn{
		Surface: trace.Webhook, Lane: t.session, Thread: opened.ID, Message: text, By: "webhook:" + t.delivery.Source,
	}, id, t.delivery.Trace)
	t.message, t.kick = &e, kick
	return err
}

const (
	// conversations is how many full queues of conversations a workspace may have at the same
	// time. A limit is needed because the senders of messages choose the threads.
	conversations = 10
	// roomWait is the delay before the next check whether there is room.
	roomWait = 30 * time.Second
)

// room postpones the delivery while a kill switch stops the agent, or if the maximum number of turns waits in
// its conversation or in the workspace. The delivery stays in the inbox, and no attempt is counted.
func (t *try) room(ctx context.Context, session lane.Name, id string) error {
	var b db.Batch
	ahead, all := t.Turns.Ahead(&b, trace.Webhook, session, id), t.Inbox.Turns(&b, conversations*t.settings.SessionQueue)
	on := new(halt.Switches)
	if t.Switches != nil {
		on = t.Switches.On(&b)
	}
	if err := t.DB.Read(ctx, t.claimed.Workspace, &b); err != nil {
		return fmt.Errorf("look whether the conversation of delivery %s has room: %w", t.delivery.ID, err)
	}
	if why := on.Run(activity.Operator); why != "" { // its turn would end without an answer
		return outbox.LaterIn(haltedWait, fmt.Errorf("delivery %s is halted: %s", t.delivery.ID, why))
	}
	if *ahead <= t.settings.SessionQueue && *all < conversations*t.settings.SessionQueue { // one of those ahead works
		return nil
	}
	wait := roomWait + time.Duration(t.Random()*float64(roomWait))
	return outbox.LaterIn(wait, errors.New("as many turns wait in its conversation, or in the workspace, as may"))
}
