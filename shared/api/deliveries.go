package api

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/inbox"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// DeliveryItem is a webhook that was received.
type DeliveryItem struct {
	ID          string       `json:"id" format:"uuid"`
	Direction   string       `json:"direction" enum:"inbound"`
	SourceID    string       `json:"sourceId" format:"uuid"`
	Source      string       `json:"source" doc:"Its name, when the webhook came"`
	DeliveryID  string       `json:"deliveryId" doc:"What its sender calls it, or the digest of its body"`
	Event       string       `json:"event,omitempty"`
	Status      inbox.Status `json:"status" enum:"received,working,done,failed,parked" doc:"failed: it is tried again; parked: a person has to look"`
	Attempts    int          `json:"attempts"`
	NextAt      *time.Time   `json:"nextAttemptAt,omitempty"`
	Action      string       `json:"action,omitempty" doc:"What its rule asked for; left out: no rule matched, or none was looked at yet"`
	Error       string       `json:"error,omitempty"`
	Duplicates  int          `json:"duplicates" doc:"How often it came again"`
	Conflict    bool         `json:"conflict" doc:"It came again with another body, which was not taken"`
	TraceID     trace.ID     `json:"traceId"`
	ExecutionID string       `json:"executionId,omitempty"`
	ReceivedAt  time.Time    `json:"receivedAt"`
	EndedAt     *time.Time   `json:"endedAt,omitempty"`
}

// wholeDelivery is a delivery with the headers and the body of its request.
type wholeDelivery struct {
	DeliveryItem
	Headers map[string]string `json:"headers" doc:"Without credentials"`
	Body    string            `json:"body" doc:"As it came, but for secrets that are known"`
}

func deliveryItemOf(d inbox.Delivery) DeliveryItem {
	return DeliveryItem{
		ID: d.ID, Direction: "inbound", SourceID: d.SourceID, Source: d.Source, DeliveryID: d.DeliveryID, Event: d.Event, Status: d.Status,
		Attempts: d.Attempts, NextAt: utc(d.NextAt), Action: d.Action, Error: d.Error, Duplicates: d.Duplicates, Conflict: d.Conflicts > 0,
		TraceID: d.Trace, ExecutionID: d.Execution, ReceivedAt: d.ReceivedAt.UTC(), EndedAt: utc(d.EndedAt),
	}
}

type deliveriesInput struct {
	Direction string `query:"direction" enum:"inbound" default:"inbound"`
	Status    string `query:"status" enum:"received,working,done,failed,parked"`
	SourceID  string `query:"sourceId" format:"uuid"`
	Cursor    string `query:"cursor" maxLength:"400"`
	Limit     int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listDeliveries lists received webhooks, newest first, without their bodies. It is called by the
// Engine Room and by scripts.
func (s *server) listDeliveries(ctx context.Context, in *deliveriesInput) (*answer[page[DeliveryItem]], error) {
	at, id, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Inbox.List(ctx, workspace(ctx), inbox.Filter{
		Status: inbox.Status(in.Status), Source: in.SourceID, Before: inbox.Position{At: at, ID: id}, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	next := ""
	if len(found) > in.Limit {
		found = found[:in.Limit]
		last := found[in.Limit-1]
		next = cursor{last.ReceivedAt, last.ID}.String()
	}
	items := make([]DeliveryItem, len(found))
	for i, d := range found {
		items[i] = deliveryItemOf(d)
	}
	return listing(items, next), nil
}

// DeliveryPath names a delivery.
type DeliveryPath struct {
	ID string `path:"id" format:"uuid"`
}

// getDelivery returns one delivery with its headers and body. Known secrets are redacted. It is
// called by the Engine Room and by scripts.
func (s *server) getDelivery(ctx context.Context, in *DeliveryPath) (*answer[wholeDelivery], error) {
	ws := workspace(ctx)
	d, err := s.Inbox.Delivery(ctx, ws, in.ID)
	if err != nil {
		return nil, err
	}
	known := s.Guard.Redactor(ctx, ws)
	out := wholeDelivery{DeliveryItem: deliveryItemOf(d), Headers: map[string]string{}}
	if utf8.Valid(d.Body) {
		out.Body = known.Text(string(d.Body))
	}
	for name, value := range d.Headers {
		out.Headers[name] = known.Text(value)
	}
	return answered(out), nil
}

type redeliverInput struct {
	DeliveryPath
	Body *struct {
		Anew bool `json:"anew,omitempty" doc:"Have another effect, even where the one before may have happened; left out: what may have happened keeps its key, and does not happen twice"`
	}
}

// redeliver processes a delivery again, with a new count of attempts. It is called by the Engine
// Room and by scripts.
func (s *server) redeliver(ctx context.Context, in *redeliverInput) (*answer[DeliveryItem], error) {
	ws := workspace(ctx)
	anew := in.Body != nil && in.Body.Anew
	var d inbox.Delivery
	err := s.change(ctx, "delivery.redeliver", func(ctx context.Context, tx *db.Tx) (err error) {
		d, err = s.Inbox.Replay(ctx, tx, in.ID, anew)
		return err
	}, "id", in.ID, "source", &d.Source, "anew", anew)
	if err != nil {
		return nil, err
	}
	s.Kick(ws)
	return answered(deliveryItemOf(d)), nil
}
