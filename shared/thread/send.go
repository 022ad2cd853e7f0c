package thread

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Outgoing is what an execution says in a thread.
type Outgoing struct {
	Thread    string
	Execution string
	Body      string
	// Key makes the message idempotent: a thread sends one message for each key.
	Key string
	// SupersedeKey replaces earlier messages with the same SupersedeKey that are not being sent yet.
	SupersedeKey string
	TTL          time.Duration // after this time it is not sent any more; 0: no limit
	// Late allows a message of an execution that has ended, because a person approved it late. The
	// message is queued.
	Late bool
}

// Sent says what became of a message.
type Sent struct {
	ID     string
	Status outbox.Status // queued, ready, sending or sent
	// Queued says that the message waits, because another execution holds the thread.
	Queued   bool
	Position int // among the queued, from 1
}

// ErrKey means that a message with another text was sent under the key.
var ErrKey = errors.New("another message was sent under the key")

// ErrFull means that the maximum number of the thread's messages wait to be sent.
var ErrFull = errors.New("too many messages of the thread wait to be sent")

const (
	maxOpen = 1000 // messages that are queued, ready or being sent
	maxTTL  = 30 * 24 * time.Hour
	// queueBase is where the numbers of queued messages begin. Messages that are not queued have
	// lower numbers, so they pass the queued ones.
	queueBase int64 = 1 << 40
)

// payload is a message in the outbox.
type payload struct {
	Thread string `json:"thread"`
	Body   string `json:"body"`
}

func (m Outgoing) check() error {
	var wrong problem.InvalidError
	wrong.If(strings.TrimSpace(m.Body) == "" || !Storable(m.Body), "body", "has 1 to 65536 bytes of text")
	wrong.If(len(m.Key) > maxKey, "idempotencyKey", longKey)
	wrong.If(len(m.SupersedeKey) > maxKey, "supersedeKey", longKey)
	wrong.If(m.TTL < 0 || m.TTL > maxTTL, "ttlSeconds", "is at most 30 days")
	return wrong.OrNil()
}

// Send acquires the thread for an execution, which keeps it, and adds the message to the outbox.
// While another execution holds the thread, the message is queued instead.
//
// A message whose key was used is not sent again: Send returns the first message. It returns
// [ErrKey] when the first message has another text, and an [outbox.StatusError] when the first
// message was not sent and will not be.
//
// An execution that has ended can't hold the thread. With Late its message is queued, and goes when
// nobody holds the thread. Send returns [ErrFull] when too many messages wait, and otherwise the
// errors of [Store.Lock] except a refusal.
func (s *Store) Send(ctx context.Context, tx execution.Tx, m Outgoing) (Sent, error) {
	if err := m.check(); err != nil {
		return Sent{}, err
	}
	id := s.ids()
	key := orderKey(m.Thread) + ":" + cmp.Or(m.Key, id)
	t := s.take(tx.Later(), m.Thread, m.Execution)
	var first string
	var said payload
	tx.Later().Each(func(scan db.Scan) error {
		var raw json.RawMessage
		if err := scan(&first, &raw); err != nil {
			return err
		}
		return json.Unmarshal(raw, &said)
	}, s.q.Known, key)
	n, err := s.numbers(ctx, tx, m.Thread, m.Execution)
	if err != nil {
		return Sent{}, fmt.Errorf("send in thread %s: %w", m.Thread, err)
	}
	_, err = t.decide()
	_, held := errors.AsType[*HeldError](err)
	_, ended := errors.AsType[*execution.EndedError](err)
	late := ended && m.Late
	queued := held || late
	switch {
	case err != nil && !queued:
		return Sent{}, err
	case first != "" && said.Body != m.Body:
		return Sent{}, fmt.Errorf("send in thread %s: %w", m.Thread, ErrKey)
	case first != "":
		return s.standing(ctx, tx, first)
	case n.open >= maxOpen:
		return Sent{}, fmt.Errorf("send in thread %s: %w", m.Thread, ErrFull)
	}
	seq := n.last + 1
	if queued {
		seq = n.queue()
	}
	raw, err := json.Marshal(payload{m.Thread, m.Body})
	if err != nil {
		return Sent{}, fmt.Errorf("send in thread %s: %w", m.Thread, err)
	}
	row := outbox.Row{
		ID: id, Kind: outbox.Message, Topic: Topic(t.after[0].Channel), Key: key, OrderKey: orderKey(m.Thread), Seq: seq,
		Payload: raw, Receiver: receiver(t.after[0]), Execution: m.Execution, Trace: n.trace, Queued: queued, TTL: m.TTL,
	}
	if m.SupersedeKey != "" {
		row.SupersedeKey = orderKey(m.Thread) + ":" + m.SupersedeKey
	}
	s.outbox.Enqueue(ctx, tx.Later(), row)
	if !queued {
		return Sent{ID: id, Status: outbox.Ready}, nil
	}
	if late || m.SupersedeKey != "" { // a free thread goes to it; a superseded message may have held the thread
		s.settle(tx.Later(), "", nil, m.Thread)
	}
	return s.standing(ctx, tx, id)
}

// receiver returns who receives a thread's messages: the host of a URL. Empty stands for the server
// of the channel.
func receiver(t Thread) string {
	if u, err := url.Parse(t.Address); err == nil && u.Host != "" {
		return Topic(t.Channel) + ":" + strings.ToLower(u.Host)
	}
	return ""
}

// Resend queues a message again that has failed or whose outcome is unknown, after all queued
// messages. It returns the message's new state. Its errors are those of [outbox.Store.Resend]. The
// caller records who did it in the same transaction.
func (s *Store) Resend(ctx context.Context, tx *db.Tx, thread, message string) (Sent, error) {
	if _, err := s.head(ctx, tx, thread); err != nil {
		return Sent{}, fmt.Errorf("send again in thread %s: %w", thread, err)
	}
	n, err := s.numbers(ctx, tx, thread, "")
	if err == nil {
		err = s.outbox.Resend(ctx, tx, orderKey(thread), message, n.queue())
	}
	if err != nil {
		return Sent{}, fmt.Errorf("send again in thread %s: %w", thread, err)
	}
	s.settle(tx.Later(), "", nil, thread)
	return s.standing(ctx, tx, message)
}

// numbers are the numbers of a thread's messages in the outbox, and the trace of the execution.
type numbers struct {
	last, lastQueued int64 // the last number below queueBase, and the last of all
	open             int
	trace            trace.ID
}

// queue returns the next number after all queued messages.
func (n numbers) queue() int64 { return max(queueBase, n.lastQueued) + 1 }

func (s *Store) numbers(ctx context.Context, tx execution.Tx, thread, execution string) (n numbers, err error) {
	err = tx.One(ctx, []any{&n.last, &n.lastQueued, &n.open, &n.trace}, s.q.Numbers, orderKey(thread), queueBase, db.Null(execution))
	return n, err
}

// standing returns the state of a message that is open or has been sent.
func (s *Store) standing(ctx context.Context, tx execution.Tx, id string) (Sent, error) {
	sent := Sent{ID: id}
	if err := tx.One(ctx, []any{&sent.Status, &sent.Position}, s.q.Place, id); err != nil {
		return Sent{}, fmt.Errorf("look where message %s stands: %w", id, err)
	}
	if !sent.Status.Open() && sent.Status != outbox.Sent {
		return Sent{}, fmt.Errorf("message %s is not spoken: %w", id, &outbox.StatusError{Status: sent.Status})
	}
	sent.Queued = sent.Status == outbox.Queued
	if !sent.Queued {
		sent.Position = 0
	}
	return sent, nil
}
