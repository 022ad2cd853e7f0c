package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// Topic is the outbox topic of webhooks. The migrations contain the same text.
const Topic = "webhook"

// sending is the payload of a row of the outbox.
type sending struct {
	Endpoint string `json:"endpoint"`
	Happened
	// WebhookID and Body are set for an event that is sent again.
	WebhookID string `json:"webhook_id,omitempty"`
	Body      string `json:"body,omitempty"`
}

// Deliverer is the handler of [Topic]. All fields are required. It is safe for concurrent use.
type Deliverer struct {
	Store  *Store
	Sender Sender
	Random func() float64 // in [0, 1), spreads the retries
	Log    *slog.Logger
}

const (
	perEndpoint = 4 // requests to an endpoint at the same time
	markTime    = 3 * time.Second
	unsentFor   = 30 * time.Second // after an attempt that could not begin, and does not count
)

// Places implements [outbox.Apart]: as many endpoints as a workspace may have can hang, and none of
// them delays another.
func (*Deliverer) Places() (all, each int) { return MaxEndpoints * perEndpoint, perEndpoint }

// Limit implements [outbox.Limited].
func (*Deliverer) Limit() time.Duration { return sendTime + markTime }

// attempt is one attempt of a row.
type attempt struct {
	claim    outbox.Claimed
	endpoint Endpoint
	delivery Delivery      // as far as it is known before the request
	recorded int           // the number of the last attempt that is recorded
	since    time.Duration // since the end of the first one; 0: this is the first
}

// Handle sends an event to an endpoint. One transaction stores the attempt and ends the claim.
func (d *Deliverer) Handle(ctx context.Context, c outbox.Claimed) error {
	a, err := d.Store.attempt(ctx, c)
	if err != nil {
		return err
	}
	keys, err := d.Store.keys(ctx, c.Workspace, a.endpoint)
	var got answer
	switch {
	case secret.Lasting(err):
		got = answer{err: errors.New("the secret of the endpoint can't be opened: rotate it")}
	case err != nil:
		return outbox.LaterIn(unsentFor, err)
	default:
		got = d.Sender.post(ctx, a.endpoint.URL, keys, a.delivery.WebhookID, []byte(a.delivery.Body))
	}
	if got.status == 0 && ctx.Err() != nil { // Lanekeeper ended it, not the receiver
		return outbox.LaterIn(time.Second, got.err)
	}
	return d.settle(ctx, a, got)
}

// attempt reads what an attempt needs. The error is an [outbox.DeadError] if the endpoint is gone or
// disabled.
func (s *Store) attempt(ctx context.Context, c outbox.Claimed) (*attempt, error) {
	var p sending
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return nil, outbox.Permanently(fmt.Errorf("read webhook %s: %w", c.ID, err))
	}
	a := &attempt{claim: c}
	var found []Endpoint
	var begun *time.Time
	var now time.Time
	var b db.Batch
	b.Each(collect(&found), s.q.Get, p.Endpoint)
	b.One([]any{&begun, &a.recorded, &now}, s.q.Tried, c.ID)
	if err := s.db.Read(ctx, c.Workspace, &b); err != nil {
		return nil, outbox.LaterIn(unsentFor, fmt.Errorf("read webhook %s: %w", c.ID, err))
	}
	switch {
	case len(found) == 0:
		return nil, outbox.Gone(ErrNotFound)
	case !found[0].Enabled:
		return nil, outbox.Gone(ErrDisabled)
	}
	a.endpoint = found[0]
	if begun != nil {
		a.since = now.Sub(*begun)
	}
	if p.Body == "" {
		raw, err := p.body(c.Workspace, c.Trace)
		if err != nil {
			return nil, outbox.Permanently(err)
		}
		p.Body = string(raw)
	}
	a.delivery = Delivery{
		Endpoint: a.endpoint.ID, Row: c.ID, WebhookID: cmp.Or(p.WebhookID, "msg_"+c.ID), Event: p.Event, Subject: p.Subject, Attempt: c.Attempt,
		Body: p.Body, Trace: c.Trace,
	}
	return a, nil
}

// The reasons for which Lanekeeper disables an endpoint.
const (
	goneReason    = "it answered 410 Gone"
	uselessReason = "it accepted nothing for 24 hours"
)

// settle stores the outcome of an attempt, and ends the claim, in one transaction.
func (d *Deliverer) settle(ctx context.Context, a *attempt, got answer) error {
	s := d.Store
	of := a.delivery
	of.note(got)
	var b db.Batch
	var as outbox.Status
	var again time.Duration
	var disabled *db.Op
	delay, more := next(a.claim.Attempt, a.since, got.after, d.Random())
	switch {
	case got.err == nil:
		as = outbox.Sent
		s.outbox.SentIn(&b, a.claim)
	case got.status == http.StatusGone:
		as = outbox.Dead
		s.outbox.DieIn(&b, a.claim, got.err)
	case more:
		as, again = outbox.Ready, delay
		s.outbox.RetryIn(&b, a.claim, delay, got.err)
		s.outbox.DeferIn(&b, a.claim, delay)
	default:
		as = outbox.Failed
		s.outbox.FailIn(&b, a.claim, got.err)
	}
	if as != outbox.Ready {
		s.outbox.GoOnIn(&b, a.claim)
	}
	for n := a.recorded + 1; n < a.claim.Attempt; n++ {
		lost := a.delivery
		lost.Attempt, lost.Status, lost.Error = n, Failed, "the attempt was cut off: the receiver may have got it"
		s.recordIn(&b, lost, 0)
	}
	s.recordIn(&b, of, again)
	if got.err == nil {
		b.Exec(s.q.Accepted, of.Endpoint)
	} else {
		b.Exec(s.q.Refused, of.Endpoint)
	}
	switch as {
	case outbox.Dead:
		disabled = b.Exec(s.q.Disable, of.Endpoint, goneReason)
	case outbox.Failed:
		disabled = b.Exec(s.q.DisableUseless, of.Endpoint, uselessReason, of.Row)
	}
	last, cancel := lane.LastWritesWithin(ctx, markTime)
	defer cancel()
	if err := s.outbox.Lost(s.db.Do(last, a.claim.Workspace, &b)); err != nil {
		return fmt.Errorf("record an attempt of webhook %s: %w", a.claim.ID, err)
	}
	if disabled != nil && disabled.Affected() > 0 {
		d.Log.WarnContext(ctx, "a webhook endpoint was disabled", "endpoint", of.Endpoint, "why", got.err)
	}
	return outbox.Settled(as, got.err)
}

// Test sends an event of the name webhook.test to an endpoint, once and at once, and records that.
// The endpoint may be disabled.
func (d *Deliverer) Test(ctx context.Context, ws db.Workspace, e Endpoint) (Delivery, error) {
	keys, err := d.Store.keys(ctx, ws, e)
	if err != nil {
		return Delivery{}, err
	}
	id, _ := trace.From(ctx)
	body, err := Happened{Event: TestEvent, Micros: d.Sender.Clock().UnixMicro()}.body(ws, id)
	if err != nil {
		return Delivery{}, err
	}
	of := Delivery{ID: d.Store.ids(), Endpoint: e.ID, Event: TestEvent, Attempt: 1, Body: string(body), Trace: id}
	of.WebhookID = "msg_" + of.ID
	of.note(d.Sender.post(ctx, e.URL, keys, of.WebhookID, body))
	var b db.Batch
	d.Store.recordIn(&b, of, 0)
	if err := d.Store.db.Do(ctx, ws, &b); err != nil {
		return of, fmt.Errorf("record a test of webhook endpoint %s: %w", e.ID, err)
	}
	return d.Store.Delivery(ctx, ws, of.ID)
}

// TestEvent is the event of [Deliverer.Test].
const TestEvent = "webhook.test"
