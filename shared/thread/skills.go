package thread

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.md
var texts embed.FS

// SendMessage is the name of the skill that says something in a thread.
const SendMessage = "send_message"

// Skills returns the built-in skills on threads. deliverable returns an [problem.InvalidError] when a text
// can't be sent to a person. On the channels in read, people read their thread themselves: nothing
// is sent there.
func Skills(s *Store, deliverable func(channel, address, body string) error, read ...string) ([]skill.Skill, error) {
	k, err := skill.Define(texts, SendMessage, skill.Skill{
		Admins: true, Sends: true, Undo: s.unsend,
		Run: func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			sent, err := s.speak(ctx, tx, c, deliverable, read)
			if err != nil {
				return nil, refused(err)
			}
			out := map[string]any{"success": true, "queued": sent.Queued, "messageId": sent.ID}
			if sent.Queued {
				out["position"] = sent.Position
			}
			return out, nil
		},
	})
	return []skill.Skill{k}, err
}

// speak sends a call's message as the execution that made the call. The execution holds the thread
// from then on until it ends. When the execution has ended before a person approved its call, it
// can't hold the thread, and its message is queued.
func (s *Store) speak(ctx context.Context, tx lane.Tx, c skill.Call, deliverable func(channel, address, body string) error, read []string) (Sent, error) {
	var args struct {
		Thread uuid.UUID `json:"threadId"`
		Body   string    `json:"body"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return Sent{}, skill.Refuse("the arguments could not be read")
	}
	var found []Thread
	if err := tx.Each(ctx, collect(&found), s.q.Get, args.Thread.String(), -Idle.Milliseconds()); err != nil {
		return Sent{}, fmt.Errorf("read thread: %w", err)
	}
	if len(found) == 0 {
		return Sent{}, skill.Refuse("there is no such thread")
	}
	body := redact.From(ctx).Text(args.Body)
	if slices.Contains(read, found[0].Channel) {
		id, _, err := s.Append(ctx, tx, found[0].ID, Spoken{Role: Assistant, Body: body, Execution: trace.Execution(ctx), Key: c.Key})
		return Sent{ID: id, Status: outbox.Sent}, err
	}
	if err := deliverable(found[0].Channel, found[0].Address, args.Body); err != nil {
		return Sent{}, err
	}
	return s.Send(ctx, tx, Outgoing{Thread: found[0].ID, Execution: trace.Execution(ctx), Body: body, Key: c.Key, Late: true})
}

// refused turns errors that the model can correct, or needs to know, into a [skill.RefusalError].
func refused(err error) error {
	if wrong, ok := errors.AsType[*problem.InvalidError](err); ok {
		return skill.Refuse("it can't be said in this thread: %s", wrong)
	}
	if unsent, ok := errors.AsType[*outbox.StatusError](err); ok {
		return skill.Refuse("the message was not said: %s", unsent)
	}
	for _, mendable := range []error{ErrFull, ErrKey} {
		if errors.Is(err, mendable) {
			return skill.Refuse("%s", mendable)
		}
	}
	return err
}

// unsend takes back a message that nobody has tried to send.
func (s *Store) unsend(ctx context.Context, tx *db.Tx, arguments, result json.RawMessage) (bool, error) {
	var args struct {
		Thread uuid.UUID `json:"threadId"`
	}
	var was struct {
		ID uuid.UUID `json:"messageId"`
	}
	if errors.Join(json.Unmarshal(arguments, &args), json.Unmarshal(result, &was)) != nil {
		return false, nil //nolint:nilerr // what can't be read is not taken back
	}
	thread := args.Thread.String()
	if _, err := s.head(ctx, tx, thread); err != nil {
		return false, fmt.Errorf("take back a message of thread %s: %w", thread, err)
	}
	n, err := tx.Exec(ctx, s.q.Unsend, was.ID.String(), thread)
	if err != nil {
		return false, fmt.Errorf("take back message %s: %w", was.ID, err)
	}
	s.settle(tx.Later(), "", nil, thread) // the message may have held the thread
	return n > 0, nil
}
