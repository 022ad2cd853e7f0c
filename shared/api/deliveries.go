package api

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// DeliveryItem is a webhook that was received, or an attempt to send one.
type DeliveryItem struct {
	ID          string     `json:"id" format:"uuid"`
	Direction   string     `json:"direction" enum:"inbound,outbound"`
	SourceID    string     `json:"sourceId,omitempty" format:"uuid" doc:"inbound: where it came from"`
	Source      string     `json:"source,omitempty" doc:"inbound: its name, when the webhook came"`
	EndpointID  string     `json:"endpointId,omitempty" format:"uuid" doc:"outbound: where it went to"`
	DeliveryID  string     `json:"deliveryId" doc:"inbound: what its sender calls it, or the digest of its body; outbound: the webhook-id, the same for all attempts"`
	Event       string     `json:"event,omitempty"`
	Subject     string     `json:"subject,omitempty" doc:"outbound: the id of what the event happened to"`
	Status      string     `json:"status" enum:"received,working,done,failed,parked,delivered" doc:"failed: it is tried again if nextAt says when; parked: a person has to look; delivered: outbound, it was accepted"`
	Attempt     int        `json:"attempt" doc:"inbound: how many were made; outbound: the number of this one"`
	StatusCode  int        `json:"statusCode,omitempty" doc:"outbound: of the answer; left out: none came"`
	DurationMs  int64      `json:"durationMs,omitempty" doc:"outbound: how long it took"`
	NextAt      *time.Time `json:"nextAt,omitempty" doc:"When it is tried again"`
	Action      string     `json:"action,omitempty" doc:"inbound: what its rule asked for; left out: no rule matched, or none was looked at yet"`
	Error       string     `json:"error,omitempty"`
	Duplicates  int        `json:"duplicates,omitempty" doc:"inbound: how often it came again"`
	Conflict    bool       `json:"conflict,omitempty" doc:"inbound: it came again with another body, which was not taken"`
	TraceID     trace.ID   `json:"traceId"`
	ExecutionID string     `json:"executionId,omitempty"`
	CreatedAt   time.Time  `json:"createdAt" doc:"inbound: when it came; outbound: when the attempt ended"`
	EndedAt     *time.Time `json:"endedAt,omitempty"`

	// The following fields repeat others, for clients that know them by these names.

	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty"`
	ReceivedAt    *time.Time `json:"receivedAt,omitempty" doc:"inbound: when it came"`
}

// wholeDelivery is a delivery with the headers and the body of its request.
type wholeDelivery struct {
	DeliveryItem
	Headers map[string]string `json:"headers" doc:"Without credentials; outbound: none"`
	Body    string            `json:"body" doc:"As it came or went, but for secrets that are known"`
}

func inboundItem(d inbox.Delivery) DeliveryItem {
	return DeliveryItem{
		ID: d.ID, Direction: inbound, SourceID: d.SourceID, Source: d.Source, DeliveryID: d.DeliveryID, Event: d.Event, Status: string(d.Status),
		Attempt: d.Attempts, Attempts: d.Attempts, NextAt: utc(d.NextAt), NextAttemptAt: utc(d.NextAt), Action: d.Action, Error: d.Error,
		Duplicates: d.Duplicates, Conflict: d.Conflicts > 0, TraceID: d.Trace, ExecutionID: d.Execution, CreatedAt: d.ReceivedAt.UTC(),
		ReceivedAt: utc(&d.ReceivedAt), EndedAt: utc(d.EndedAt),
	}
}

func outboundItem(d endpoint.Delivery) DeliveryItem {
	return DeliveryItem{
		ID: d.ID, Direction: outbound, EndpointID: d.Endpoint, DeliveryID: d.WebhookID, Event: d.Event, Subject: d.Subject,
		Status:  string(d.Status),
		Attempt: d.Attempt, Attempts: d.Attempt, StatusCode: d.StatusCode, DurationMs: d.Took.Milliseconds(),
		NextAt: utc(d.NextAt), NextAttemptAt: utc(d.NextAt),
		Error: d.Error, TraceID: d.Trace, CreatedAt: d.CreatedAt.UTC(), EndedAt: utc(&d.CreatedAt),
	}
}

// The directions of deliveries.
const (
	inbound  = "inbound"
	outbound = "outbound"
)

type deliveriesInput struct {
	Direction  string `query:"direction" enum:"inbound,outbound" doc:"Left out: outbound with endpointId, else inbound"`
	Status     string `query:"status" enum:"received,working,done,failed,parked,delivered"`
	SourceID   string `query:"sourceId" format:"uuid" doc:"inbound only"`
	EndpointID string `query:"endpointId" format:"uuid" doc:"outbound only"`
	Event      string `query:"event" maxLength:"200"`
	Cursor     string `query:"cursor" maxLength:"400"`
	Limit      int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listDeliveries lists received webhooks, or attempts to send webhooks, newest first, without their
// bodies. It is called by the Engine Room and by scripts.
func (s *server) listDeliveries(ctx context.Context, in *deliveriesInput) (*answer[page[DeliveryItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	direction := in.Direction
	if direction == "" && in.EndpointID != "" {
		direction = outbound
	}
	var items []DeliveryItem
	if direction == outbound {
		if in.SourceID != "" {
			return nil, invalid(problem.At("query.sourceId", "goes with direction=inbound only"))
		}
		found, err := s.Endpoints.Store.Deliveries(ctx, workspace(ctx), endpoint.Filter{
			Endpoint: in.EndpointID, Status: endpoint.Status(in.Status), Event: in.Event, Before: before, Limit: in.Limit + 1,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			items = append(items, outboundItem(d))
		}
	} else {
		if in.EndpointID != "" {
			return nil, invalid(problem.At("query.endpointId", "goes with direction=outbound only"))
		}
		found, err := s.Inbox.List(ctx, workspace(ctx), inbox.Filter{
			Status: inbox.Status(in.Status), Source: in.SourceID, Event: in.Event, Before: before, Limit: in.Limit + 1,
		})
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			items = append(items, inboundItem(d))
		}
	}
	items, more := db.Page(append([]DeliveryItem{}, items...), in.Limit)
	return listing(items, after(items, more, func(x DeliveryItem) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} })), nil
}

// getDelivery returns one delivery of either direction with its headers and body. Known secrets are redacted. It is
// called by the Engine Room and by scripts.
func (s *server) getDelivery(ctx context.Context, in *IDPath) (*answer[wholeDelivery], error) {
	ws := workspace(ctx)
	d, err := s.Inbox.Delivery(ctx, ws, in.ID)
	if errors.Is(err, db.ErrNoRows) || errors.Is(err, inbox.ErrNotFound) {
		sent, err := s.Endpoints.Store.Delivery(ctx, ws, in.ID)
		if err != nil {
			return nil, err
		}
		return answered(wholeDelivery{DeliveryItem: outboundItem(sent), Headers: map[string]string{},
			Body: s.Guard.Redactor(ctx, ws).Text(sent.Body)}), nil
	}
	if err != nil {
		return nil, err
	}
	known := s.Guard.Redactor(ctx, ws)
	out := wholeDelivery{DeliveryItem: inboundItem(d), Headers: map[string]string{}}
	if utf8.Valid(d.Body) {
		out.Body = known.Text(string(d.Body))
	}
	for name, value := range d.Headers {
		out.Headers[name] = known.Text(value)
	}
	return answered(out), nil
}

type redeliverInput struct {
	IDPath
	Body *struct {
		Anew bool `json:"anew,omitempty" doc:"inbound: have another effect, even where the one before may have happened; left out: what may have happened keeps its key, and does not happen twice"`
	}
}

// redeliver processes a received webhook again, with a new count of attempts, or sends the event of an
// outbound delivery again, under its webhook-id. It is called by the Engine Room and by scripts.
func (s *server) redeliver(ctx context.Context, in *redeliverInput) (*answer[DeliveryItem], error) {
	ws := workspace(ctx)
	anew := in.Body != nil && in.Body.Anew
	var item DeliveryItem
	var from string
	err := s.changeOnce(ctx, "delivery.redeliver", func(ctx context.Context, tx *db.Tx) error {
		sent, err := s.Endpoints.Store.Redeliver(ctx, tx, in.ID)
		if err == nil {
			item, from = outboundItem(sent), sent.Endpoint
		}
		if !errors.Is(err, endpoint.ErrNoDelivery) {
			return err
		}
		d, err := s.Inbox.Replay(ctx, tx, in.ID, anew)
		item, from = inboundItem(d), d.Source
		return err
	}, "id", in.ID, "source", &from, "anew", anew)
	if errors.Is(err, db.ErrUnique) { // the request was executed before, and its response was lost
		var now *answer[wholeDelivery]
		if now, err = s.getDelivery(ctx, &in.IDPath); err == nil {
			item = now.Body.DeliveryItem
		}
	}
	if err != nil {
		return nil, err
	}
	if item.Direction == outbound {
		s.Send(ws)
	} else {
		s.Kick(ws)
	}
	return answered(item), nil
}
