package api

import (
	"context"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/endpoint"
)

// webhookEvents are the values of a filter of events.
type webhookEvents []string

// WebhookEndpointItem is a receiver of events, without its secret.
type WebhookEndpointItem struct {
	ID             string        `json:"id" format:"uuid"`
	URL            string        `json:"url"`
	Events         webhookEvents `json:"events" nullable:"false" doc:"Their names, or only *"`
	Description    string        `json:"description,omitempty"`
	Challenge      bool          `json:"ownershipChallenge" doc:"A new URL must answer the ownership challenge"`
	Enabled        bool          `json:"enabled"`
	DisabledReason string        `json:"disabledReason,omitempty" doc:"Why it was disabled, where nobody did it by hand"`
	Failures       int           `json:"failures" doc:"Failed attempts since it has accepted an event"`
	FailingSince   *time.Time    `json:"failingSince,omitempty" doc:"The first of them"`
	OldValidUntil  *time.Time    `json:"oldSecretValidUntil,omitempty" doc:"Until when requests are signed with the secret before, too"`
	CreatedBy      string        `json:"createdBy"`
	CreatedAt      time.Time     `json:"createdAt"`
	UpdatedAt      time.Time     `json:"updatedAt"`
}

func webhookEndpointItem(e endpoint.Endpoint) WebhookEndpointItem {
	return WebhookEndpointItem{
		ID: e.ID, URL: e.URL, Events: e.Events, Description: e.Description, Challenge: e.Challenge, Enabled: e.Enabled,
		DisabledReason: e.DisabledReason,
		Failures:       e.Failures, FailingSince: utc(e.FailingSince), OldValidUntil: utc(e.OldUntil), CreatedBy: e.CreatedBy,
		CreatedAt: e.CreatedAt.UTC(), UpdatedAt: e.UpdatedAt.UTC(),
	}
}

func webhookEndpointOutput(e endpoint.Endpoint) *versioned[WebhookEndpointItem] {
	return &versioned[WebhookEndpointItem]{ETag: tagOf(e.Version), Body: webhookEndpointItem(e)}
}

// listWebhookEndpoints lists the endpoints, newest first, without their secrets. It is called by the
// Engine Room and by scripts.
func (s *server) listWebhookEndpoints(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[WebhookEndpointItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Endpoints.Store.List(ctx, workspace(ctx), before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x endpoint.Endpoint) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} },
		webhookEndpointItem), nil
}

// madeWebhookEndpoint is a new endpoint with its secret.
type madeWebhookEndpoint struct {
	WebhookEndpointItem
	Secret string `json:"secret" doc:"What its requests are signed with; shown this once"`
}

// createWebhookEndpoint registers a receiver of events. It is called by the Engine Room and by
// scripts.
func (s *server) createWebhookEndpoint(ctx context.Context, in *struct {
	Body struct {
		URL         string        `json:"url" minLength:"1" maxLength:"2048" doc:"https only, but for loopback addresses where those are allowed"`
		Events      webhookEvents `json:"events" minItems:"1" maxItems:"50" nullable:"false" enum:"task.status_changed,task.dependency_cycle,agent.stale,budget.warning,budget.exhausted,approval.requested,lane.wait_warning,heartbeat.completed,*"`
		Description string        `json:"description,omitempty" maxLength:"1000"`
		Challenge   bool          `json:"ownershipChallenge,omitempty" doc:"The URL has to answer a webhook.challenge with the text of its field challenge before it is registered"`
		Enabled     *bool         `json:"enabled,omitempty" default:"true"`
	}
}) (*createdAt[madeWebhookEndpoint], error) {
	by, _ := auth.From(ctx)
	b := in.Body
	e := endpoint.Endpoint{
		ID: s.newID(ctx), URL: b.URL, Events: b.Events, Description: b.Description, Challenge: b.Challenge, Enabled: b.Enabled == nil ||
			*b.Enabled, CreatedBy: principal(by),
	}
	value := endpoint.NewSecret()
	draft, err := s.Endpoints.Store.Seal(ctx, by.Workspace, e, value)
	if err != nil {
		return nil, err
	}
	if err := s.Endpoints.Reachable(ctx, e.URL); err != nil {
		return nil, err
	}
	if e.Challenge {
		if err := s.Endpoints.Challenge(ctx, by.Workspace, e, value); err != nil {
			return nil, err
		}
	}
	err = s.change(ctx, "webhook_endpoint.create", func(ctx context.Context, tx *db.Tx) (err error) {
		e, err = s.Endpoints.Store.Create(ctx, tx, draft)
		return err
	}, "id", draft.ID, "url", b.URL, "events", b.Events)
	if err := shownOnce(ctx, err, s.Endpoints.Store.Get); err != nil {
		return nil, err
	}
	return &createdAt[madeWebhookEndpoint]{
		"/api/v1/webhook-endpoints/" + e.ID, tagOf(e.Version), madeWebhookEndpoint{webhookEndpointItem(e), value.Reveal()},
	}, nil
}

// getWebhookEndpoint returns one endpoint, without its secret. It is called by the Engine Room and by
// scripts.
func (s *server) getWebhookEndpoint(ctx context.Context, in *IDPath) (*versioned[WebhookEndpointItem], error) {
	e, err := s.Endpoints.Store.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return webhookEndpointOutput(e), nil
}

// patchWebhookEndpoint changes the given fields of an endpoint. It is called by the Engine Room and by
// scripts.
func (s *server) patchWebhookEndpoint(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		URL         *string        `json:"url,omitempty" minLength:"1" maxLength:"2048"`
		Events      *webhookEvents `json:"events,omitempty" minItems:"1" maxItems:"50" enum:"task.status_changed,task.dependency_cycle,agent.stale,budget.warning,budget.exhausted,approval.requested,lane.wait_warning,heartbeat.completed,*"`
		Description *string        `json:"description,omitempty" maxLength:"1000"`
		Challenge   *bool          `json:"ownershipChallenge,omitempty" doc:"true: the URL has to answer a challenge now, and each new one"`
		Enabled     *bool          `json:"enabled,omitempty" doc:"A disabled one is told of nothing, later neither"`
	}
}) (*versioned[WebhookEndpointItem], error) {
	ws := workspace(ctx)
	e, err := s.Endpoints.Store.Get(ctx, ws, in.ID)
	if err != nil {
		return nil, err
	}
	if err := in.matches(e.Version); err != nil {
		return nil, err
	}
	was, b := e, in.Body
	db.Patch(&e.URL, b.URL)
	if b.Events != nil {
		e.Events = *b.Events
	}
	db.Patch(&e.Description, b.Description)
	db.Patch(&e.Challenge, b.Challenge)
	db.Patch(&e.Enabled, b.Enabled)
	if err := s.Endpoints.Store.Check(&e); err != nil {
		return nil, err
	}
	if e.URL != was.URL {
		if err := s.Endpoints.Reachable(ctx, e.URL); err != nil {
			return nil, err
		}
	}
	if e.Challenge && (e.URL != was.URL || !was.Challenge) {
		if err := s.Endpoints.ChallengeAgain(ctx, ws, e); err != nil {
			return nil, err
		}
	}
	err = s.change(ctx, "webhook_endpoint.update", func(ctx context.Context, tx *db.Tx) (err error) {
		e, err = s.Endpoints.Store.Update(ctx, tx, e)
		return err
	}, "id", e.ID, "url", e.URL, "events", e.Events, "enabled", e.Enabled)
	if err != nil {
		return nil, err
	}
	return webhookEndpointOutput(e), nil
}

// deleteWebhookEndpoint deletes an endpoint. Its deliveries remain listed. It is called by the Engine
// Room and by scripts.
func (s *server) deleteWebhookEndpoint(ctx context.Context, in *IDPath) (*struct{}, error) {
	return nil, s.change(ctx, "webhook_endpoint.delete", func(ctx context.Context, tx *db.Tx) error {
		return s.Endpoints.Store.Delete(ctx, tx, in.ID)
	}, "id", in.ID)
}

type rotatedEndpointSecret struct {
	Secret        string     `json:"secret" doc:"Shown this once"`
	OldValidUntil *time.Time `json:"oldSecretValidUntil" doc:"Until when requests are signed with the one before, too"`
}

// rotateEndpointSecret gives an endpoint a new secret. For 24 hours its requests have two signatures.
// It is called by the Engine Room and by scripts.
func (s *server) rotateEndpointSecret(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*answer[rotatedEndpointSecret], error) {
	e, err := s.Endpoints.Store.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	value := endpoint.NewSecret()
	draft, err := s.Endpoints.Store.SealAnew(ctx, workspace(ctx), e, value)
	if err != nil {
		return nil, err
	}
	err = s.changeOnce(ctx, "webhook_endpoint.rotate_secret", func(ctx context.Context, tx *db.Tx) (err error) {
		e, err = s.Endpoints.Store.Rotate(ctx, tx, draft)
		return err
	}, "id", draft.ID)
	if errors.Is(err, db.ErrUnique) { // the request was executed before, and its response was lost
		err = notKept
	}
	if err != nil {
		return nil, err
	}
	return answered(rotatedEndpointSecret{value.Reveal(), utc(e.OldUntil)}), nil
}

// testWebhookEndpoint sends a webhook.test to an endpoint, once and at once. It is called by the Engine
// Room and by scripts.
func (s *server) testWebhookEndpoint(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*answer[DeliveryItem], error) {
	ws := workspace(ctx)
	e, err := s.Endpoints.Store.Get(ctx, ws, in.ID)
	if err != nil {
		return nil, err
	}
	d, err := s.Endpoints.Test(ctx, ws, e)
	if err != nil {
		return nil, err
	}
	return answered(outboundItem(d)), nil
}
