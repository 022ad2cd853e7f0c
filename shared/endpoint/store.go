package endpoint

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Get, List, Count, Insert, Update, Delete, Rotate db.Query
	Sealed, Reseal, LockHead                         db.Query
	Tried, Record, Accepted, Refused                 db.Query
	Disable, DisableUseless                          db.Query
	Delivery, Deliveries, DeliveriesTo               db.Query
}

// Store stores the webhook endpoints of all workspaces, and the attempts at deliveries to them. It is
// safe for concurrent use.
type Store struct {
	db      *db.DB
	q       queries
	secrets *secret.Store
	outbox  *outbox.Store
	pairs   *secret.Pairs
	ids     func() string
}

// New returns a store. ids makes time-ordered ids (UUIDv7).
func New(d *db.DB, secrets *secret.Store, out *outbox.Store, ids func() string) (*Store, error) {
	s := &Store{db: d, secrets: secrets, outbox: out, ids: ids, pairs: secrets.Pairs("webhook endpoint", "webhook_endpoints")}
	return s, db.Load(files, &s.q)
}

// Get reads an endpoint. Errors: [ErrNotFound].
func (s *Store) Get(ctx context.Context, ws db.Workspace, id string) (Endpoint, error) {
	var found []Endpoint
	err := s.db.Each(ctx, ws, collect(&found), s.q.Get, id)
	return db.Found(found, err, "read a webhook endpoint", ErrNotFound)
}

// List lists endpoints, newest first.
func (s *Store) List(ctx context.Context, ws db.Workspace, before db.Position, limit int) ([]Endpoint, error) {
	var found []Endpoint
	if err := s.db.Each(ctx, ws, collect(&found), s.q.List, append(before.Args(), limit)...); err != nil {
		return nil, fmt.Errorf("list webhook endpoints: %w", err)
	}
	return found, nil
}

// Draft is an endpoint with an encrypted secret that is not stored yet.
type Draft struct {
	Endpoint
	sealed []byte
}

// Seal checks a new endpoint, gives it an id if it has none, and encrypts its secret. It must run before the transaction, because it
// may call the key service. Errors: [problem.InvalidError].
func (s *Store) Seal(ctx context.Context, ws db.Workspace, e Endpoint, v secret.Value) (Draft, error) {
	if err := e.check(); err != nil {
		return Draft{}, err
	}
	e.ID = cmp.Or(e.ID, s.ids())
	return s.SealAnew(ctx, ws, e, v)
}

// SealAnew encrypts a further secret of an endpoint for [Store.Rotate]. It must run before the
// transaction.
func (s *Store) SealAnew(ctx context.Context, ws db.Workspace, of Endpoint, v secret.Value) (Draft, error) {
	sealed, err := s.secrets.SealAt(ctx, s.pairs.At(ws, of.ID), v)
	if err != nil {
		return Draft{}, fmt.Errorf("seal the secret of a webhook endpoint: %w", err)
	}
	of.sealed = [][]byte{sealed}
	return Draft{of, sealed}, nil
}

// Create stores a new endpoint. Errors: [ErrFull].
func (s *Store) Create(ctx context.Context, tx *db.Tx, d Draft) (Endpoint, error) {
	var rows int
	tx.Later().Exec(s.q.LockHead) // two concurrent calls must not exceed the limit
	if err := tx.One(ctx, []any{&rows}, s.q.Count); err != nil {
		return Endpoint{}, fmt.Errorf("create a webhook endpoint: %w", err)
	}
	if rows >= MaxEndpoints {
		return Endpoint{}, ErrFull
	}
	filter, err := db.JSON(d.Events)
	if err != nil {
		return Endpoint{}, fmt.Errorf("create a webhook endpoint: %w", err)
	}
	var made []Endpoint
	err = tx.Each(ctx, collect(&made), s.q.Insert, d.ID, d.URL, filter, d.Description, d.Challenge, d.Enabled, d.sealed, d.CreatedBy)
	return db.Found(made, err, "create a webhook endpoint", ErrNotFound)
}

// Check validates a changed endpoint. Errors: [problem.InvalidError].
func (s *Store) Check(e *Endpoint) error { return e.check() }

// Update stores a changed endpoint unless its version has changed since it was read. An endpoint that
// becomes enabled has no failures. Errors: [problem.InvalidError], [ErrChanged].
func (s *Store) Update(ctx context.Context, tx *db.Tx, e Endpoint) (Endpoint, error) {
	if err := e.check(); err != nil {
		return Endpoint{}, err
	}
	filter, err := db.JSON(e.Events)
	if err != nil {
		return Endpoint{}, fmt.Errorf("change a webhook endpoint: %w", err)
	}
	var made []Endpoint
	err = tx.Each(ctx, collect(&made), s.q.Update, e.ID, e.Version, e.URL, filter, e.Description, e.Challenge, e.Enabled)
	return db.Found(made, err, "change a webhook endpoint", ErrChanged)
}

// overlap is how long requests are signed with the previous secret too.
const overlap = 24 * time.Hour

// Rotate gives an endpoint a new secret. For 24 hours requests are signed with the previous one too.
// Errors: [ErrNotFound].
func (s *Store) Rotate(ctx context.Context, tx *db.Tx, d Draft) (Endpoint, error) {
	var made []Endpoint
	err := tx.Each(ctx, collect(&made), s.q.Rotate, d.ID, d.sealed, overlap.Milliseconds())
	return db.Found(made, err, "rotate the secret of a webhook endpoint", ErrNotFound)
}

// Delete deletes an endpoint. Its deliveries remain; what was due to it is dead. Errors:
// [ErrNotFound].
func (s *Store) Delete(ctx context.Context, tx *db.Tx, id string) error {
	n, err := tx.Exec(ctx, s.q.Delete, id)
	if err != nil {
		return fmt.Errorf("delete a webhook endpoint: %w", err)
	}
	if n == 0 {
		return ErrNotFound
	}
	return nil
}

func collect(into *[]Endpoint) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, e *Endpoint) error {
		var filter json.RawMessage
		var now, old []byte
		if err := scan(&e.ID, &e.URL, &filter, &e.Description, &e.Challenge, &e.Enabled, db.Optional(&e.DisabledReason), &e.Failures, &e.FailingSince,
			&e.OldUntil, &e.Version, &e.CreatedBy, &e.CreatedAt, &e.UpdatedAt, &now, &old); err != nil {
			return err
		}
		e.sealed = append(e.sealed, now)
		if old != nil {
			e.sealed = append(e.sealed, old)
		}
		if err := json.Unmarshal(filter, &e.Events); err != nil {
			return fmt.Errorf("read the events of webhook endpoint %s: %w", e.ID, err)
		}
		return nil
	})
}
