package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Status is the outcome of an attempt.
type Status string

// The outcomes.
const (
	Delivered Status = "delivered"
	Failed    Status = "failed"
)

// Delivery is an attempt to tell an endpoint of an event.
type Delivery struct {
	ID         string
	Endpoint   string // its id; it may be gone
	Row        string // the outbox row that was tried; empty: a test
	WebhookID  string // the same for all attempts
	Event      string
	Subject    string // the id of what it happened to
	Attempt    int    // from 1
	Status     Status
	StatusCode int           // of HTTP; 0: no answer came
	Error      string        // empty: the event was accepted
	Took       time.Duration // 0: unknown
	NextAt     *time.Time    // when the next attempt is due; nil: there is none
	Body       string        // empty in listings
	Trace      trace.ID
	CreatedAt  time.Time
}

// note sets the outcome.
func (d *Delivery) note(got answer) {
	d.StatusCode, d.Took, d.Status = got.status, got.took, Delivered
	if got.err != nil {
		d.Status, d.Error = Failed, got.err.Error()
	}
}

const maxError = 1000 // bytes

// recordIn adds a delivery to a batch. again is the delay until the next attempt; 0: there is none.
func (s *Store) recordIn(b *db.Batch, d Delivery, again time.Duration) {
	why := activity.Text(d.Error) // it may repeat the names of a certificate
	if len(why) > maxError {
		why = strings.ToValidUTF8(why[:maxError], "")
	}
	b.Exec(s.q.Record, cmp.Or(d.ID, s.ids()), d.Endpoint, db.Null(d.Row), d.WebhookID, d.Event, db.Null(d.Subject), d.Attempt, d.Status, db.Null(d.StatusCode),
		db.Null(why), db.Null(d.Took.Milliseconds()), db.Null(again.Milliseconds()), d.Body, d.Trace)
}

// Delivery reads a delivery. Errors: [ErrNoDelivery].
func (s *Store) Delivery(ctx context.Context, ws db.Workspace, id string) (Delivery, error) {
	var found []Delivery
	err := s.db.Each(ctx, ws, collectDeliveries(&found), s.q.Delivery, id)
	return db.Found(found, err, "read a delivery", ErrNoDelivery)
}

// Filter narrows a listing of deliveries. Empty fields match all.
type Filter struct {
	Endpoint string
	Status   Status
	Event    string
	Before   db.Position
	Limit    int
}

// Deliveries lists deliveries without their bodies, newest first.
func (s *Store) Deliveries(ctx context.Context, ws db.Workspace, f Filter) ([]Delivery, error) {
	var found []Delivery
	q, args := s.q.Deliveries, append(f.Before.Args(db.Null(f.Status), db.Null(f.Event)), f.Limit)
	if f.Endpoint != "" {
		to := strings.ToLower(f.Endpoint)
		if !isID(to) {
			return nil, nil // there is none of that id
		}
		q, args = s.q.DeliveriesTo, append(args, to)
	}
	err := s.db.Each(ctx, ws, collectDeliveries(&found), q, args...)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return found, nil
}

func isID(s string) bool { return len(s) == len(uuid.Nil.String()) && uuid.Validate(s) == nil }

// Redeliver adds to a transaction that the event of a delivery is sent again, to the endpoint as it is
// now, with the same webhook-id and all attempts. It does not wait for others of its task. Errors:
// [ErrNoDelivery], [ErrNotFound], [ErrDisabled].
func (s *Store) Redeliver(ctx context.Context, tx *db.Tx, id string) (Delivery, error) {
	var found []Delivery
	if err := tx.Each(ctx, collectDeliveries(&found), s.q.Delivery, id); err != nil {
		return Delivery{}, fmt.Errorf("redeliver %s: %w", id, err)
	}
	if len(found) == 0 {
		return Delivery{}, ErrNoDelivery
	}
	d := found[0]
	var to []Endpoint
	if err := tx.Each(ctx, collect(&to), s.q.Get, d.Endpoint); err != nil {
		return d, fmt.Errorf("redeliver %s: %w", id, err)
	}
	e, err := db.First(to, ErrNotFound)
	switch {
	case err != nil:
		return d, err
	case !e.Enabled:
		return d, ErrDisabled
	}
	payload, err := json.Marshal(sending{Endpoint: e.ID, Happened: Happened{Event: d.Event, Subject: d.Subject}, WebhookID: d.WebhookID, Body: d.Body})
	if err != nil {
		return d, fmt.Errorf("redeliver %s: %w", id, err)
	}
	row := s.ids()
	s.outbox.Enqueue(ctx, tx.Later(), outbox.Row{
		ID: row, Kind: outbox.Webhook, Topic: Topic, Key: "webhook:again:" + row, Receiver: e.ID, Payload: payload, MaxAttempts: maxAttempts, Trace: d.Trace,
	})
	return d, nil
}

func collectDeliveries(into *[]Delivery) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, d *Delivery) error {
		var ms int64
		err := scan(&d.ID, &d.Endpoint, db.Optional(&d.Row), &d.WebhookID, &d.Event, db.Optional(&d.Subject), &d.Attempt, &d.Status, db.Optional(&d.StatusCode),
			db.Optional(&d.Error), db.Optional(&ms), &d.NextAt, &d.Body, &d.Trace, &d.CreatedAt)
		d.Took = time.Duration(ms) * time.Millisecond
		return err
	})
}
