package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Message is what a channel sends to a person.
type Message struct {
	// Key is the same in every try. The channel passes it on, so that the person gets the message
	// once.
	Key       string
	Workspace db.Workspace
	Thread    string
	Address   string
	Body      string
	Metadata  map[string]string // of the thread
}

// Channel sends messages to people. Send returns nil when the channel has accepted the message; its
// errors are those of an [outbox.Handler]. A channel that can't pass on a message's key has a
// method Unkeyed() bool, as in [outbox.Unkeyed]. A channel with another time limit than 30 seconds
// has a method Limit() time.Duration. It must be safe for concurrent use.
type Channel interface {
	Name() string
	Send(ctx context.Context, m Message) error
}

// markTimeout is how long marking a message as sent may take, even when the time for sending is
// over.
const markTimeout = 3 * time.Second

// Topic returns the outbox topic of a channel's messages.
func Topic(channel string) string { return "message:" + channel }

// Handlers returns the outbox handlers that deliver the messages of threads.
func (s *Store) Handlers(channels ...Channel) map[string]outbox.Handler {
	out := make(map[string]outbox.Handler, len(channels))
	for _, c := range channels {
		out[Topic(c.Name())] = delivery{s, c}
	}
	return out
}

// delivery sends messages through one channel.
type delivery struct {
	s       *Store
	channel Channel
}

func (d delivery) Unkeyed() bool {
	u, ok := d.channel.(interface{ Unkeyed() bool })
	return ok && u.Unkeyed()
}

// deliveryLimit is how long a delivery may take when its channel names no limit.
const deliveryLimit = 30 * time.Second

// Limit implements [outbox.Limited].
func (d delivery) Limit() time.Duration {
	if l, ok := d.channel.(interface{ Limit() time.Duration }); ok {
		return l.Limit()
	}
	return deliveryLimit
}

// Handle sends a message. After the channel has accepted it, one transaction stores it among the
// thread's messages, marks it sent, and releases the thread if the message held it.
func (d delivery) Handle(ctx context.Context, c outbox.Claimed) error {
	var p payload
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return outbox.Permanently(fmt.Errorf("read message %s: %w", c.ID, err))
	}
	t, err := d.s.Get(ctx, c.Workspace, p.Thread)
	if errors.Is(err, db.ErrNoRows) {
		return outbox.Gone(errors.New("the thread is gone"))
	}
	if err == nil && t.Lock.Holder == c.ID { // a message's hold lasts as long as the message is tried
		_, err = d.s.db.Exec(ctx, c.Workspace, d.s.q.Refresh, p.Thread, c.ID)
	}
	if err != nil {
		return fmt.Errorf("read the thread of message %s: %w", c.ID, err)
	}
	m := Message{Key: c.Key, Workspace: c.Workspace, Thread: t.ID, Address: t.Address, Body: p.Body, Metadata: t.Metadata}
	if err := d.channel.Send(ctx, m); err != nil {
		if final(c, err) {
			d.letGo(ctx, c, t.ID)
		}
		return err
	}
	return d.spoken(ctx, c, p)
}

// final reports whether a message that the channel did not accept will not be tried again.
func final(c outbox.Claimed, err error) bool {
	_, permanent := errors.AsType[*outbox.PermanentError](err)
	_, dead := errors.AsType[*outbox.DeadError](err)
	_, uncertain := errors.AsType[*outbox.UncertainError](err)
	return permanent || dead || uncertain || c.Last()
}

// letGo releases the thread that a failed message holds, so that the next message need not wait for
// the sweep.
func (d delivery) letGo(ctx context.Context, c outbox.Claimed, thread string) {
	last, cancel := lane.LastWritesWithin(ctx, markTimeout)
	defer cancel()
	var b db.Batch
	b.Exec(d.s.q.Head, thread) // locks the row
	d.s.settle(&b, c.ID, nil, thread)
	if err := d.s.db.Do(last, c.Workspace, &b); err != nil {
		d.s.log.WarnContext(ctx, "the queue of a failed message goes on with the next sweep", "thread", thread, "error", err)
	}
}

func (d delivery) spoken(ctx context.Context, c outbox.Claimed, p payload) error {
	last, cancel := lane.LastWritesWithin(ctx, markTimeout)
	defer cancel()
	var b db.Batch
	b.Exec(d.s.q.Bump, p.Thread) // locks the row
	d.s.outbox.SentIn(&b, c)
	d.s.say(&b, p.Thread, Spoken{ID: c.ID, Role: Assistant, Body: p.Body, Execution: c.Execution})
	d.s.settle(&b, c.ID, nil, p.Thread)
	err := d.s.outbox.Lost(d.s.db.Do(last, c.Workspace, &b))
	switch {
	case err == nil:
		return outbox.Settled(outbox.Sent, nil)
	case d.Unkeyed() || c.Last(): // another try could send it twice, and marking it failed could be wrong
		return outbox.Uncertainly(fmt.Errorf("mark message %s sent: %w", c.ID, err))
	}
	return fmt.Errorf("mark message %s sent: %w", c.ID, err)
}
