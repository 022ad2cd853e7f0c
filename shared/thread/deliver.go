package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
)

// Message is what a channel brings to a person.
type Message struct {
	// Key is the same in every try: the channel hands it on, so that the person gets
	// the message once.
	Key       string
	Workspace db.Workspace
	Thread    string
	Address   string
	Body      string
	Metadata  map[string]string // of the thread
}

// Channel is a way to people outside. nil means that it took the message over; its
// errors are those of an [outbox.Handler]. A channel that can't hand a message's key
// on says so with a method Unkeyed() bool, as [outbox.Unkeyed] does; one whose calls
// end sooner than after 30 seconds with a method Limit() time.Duration. Safe for
// concurrent use.
type Channel interface {
	Name() string
	Send(ctx context.Context, m Message) error
}

// markTimeout is how long it may take to mark a message sent, also when the time to
// send it is over.
const markTimeout = 3 * time.Second

// Topic is that of a channel's messages in the outbox.
func Topic(channel string) string { return "message:" + channel }

// Handlers are those of the outbox that bring the messages of threads to people.
func (s *Store) Handlers(channels ...Channel) map[string]outbox.Handler {
	out := make(map[string]outbox.Handler, len(channels))
	for _, c := range channels {
		out[Topic(c.Name())] = delivery{s, c}
	}
	return out
}

// delivery hands messages to one channel.
type delivery struct {
	s       *Store
	channel Channel
}

func (d delivery) Unkeyed() bool {
	u, ok := d.channel.(interface{ Unkeyed() bool })
	return ok && u.Unkeyed()
}

// deliveryLimit is how long a delivery may take over a channel that names no limit.
const deliveryLimit = 30 * time.Second

// Limit implements [outbox.Limited].
func (d delivery) Limit() time.Duration {
	if l, ok := d.channel.(interface{ Limit() time.Duration }); ok {
		return l.Limit()
	}
	return deliveryLimit
}

// Handle sends a message. Once the channel has it, one transaction stores it among
// what was spoken, marks it sent, and lets go of the thread where the message had it
// for itself.
func (d delivery) Handle(ctx context.Context, c outbox.Claimed) error {
	var p payload
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return outbox.Permanently(fmt.Errorf("read message %s: %w", c.ID, err))
	}
	t, err := d.s.Get(ctx, c.Workspace, p.Thread)
	if errors.Is(err, db.ErrNoRows) {
		return outbox.Gone(errors.New("the thread is gone"))
	}
	if err == nil && t.Lock.Holder == c.ID { // a message's hold lasts as long as it is tried
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

// final reports whether a message that the channel did not take is not tried again.
func final(c outbox.Claimed, err error) bool {
	_, permanent := errors.AsType[*outbox.PermanentError](err)
	_, dead := errors.AsType[*outbox.DeadError](err)
	_, uncertain := errors.AsType[*outbox.UncertainError](err)
	return permanent || dead || uncertain || c.Last()
}

// letGo lets go of the thread that a message has which failed, so that the next needs
// not wait for the sweep.
func (d delivery) letGo(ctx context.Context, c outbox.Claimed, thread string) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	var b db.Batch
	b.Exec(d.s.q.Head, thread) // locks the row
	d.s.settle(&b, c.ID, nil, thread)
	if err := d.s.db.Do(last, c.Workspace, &b); err != nil {
		d.s.slog.WarnContext(ctx, "the queue of a failed message goes on with the next sweep", "thread", thread, "error", err)
	}
}

func (d delivery) spoken(ctx context.Context, c outbox.Claimed, p payload) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	var b db.Batch
	b.Exec(d.s.q.Bump, p.Thread) // locks the row
	d.s.outbox.SentIn(&b, c)
	d.s.say(&b, p.Thread, Spoken{ID: c.ID, Role: Assistant, Body: p.Body, Execution: c.Execution})
	d.s.settle(&b, c.ID, nil, p.Thread)
	err := d.s.outbox.Lost(d.s.db.Do(last, c.Workspace, &b))
	switch {
	case err == nil:
		return outbox.Settled(outbox.Sent)
	case d.Unkeyed() || c.Last(): // another try would say it twice, and none would be a lie
		return outbox.Uncertainly(fmt.Errorf("mark message %s sent: %w", c.ID, err))
	}
	return fmt.Errorf("mark message %s sent: %w", c.ID, err)
}
