package inbox

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/outbox"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	FindSource, GetSource, ListSources, CountSources db.Query
	InsertSource, UpdateSource, DeleteSource         db.Query
	RotateSource, SealedSources, ResealSource        db.Query
	Reject, Receive, Get, List, Begin, End, Replay   db.Query
	Kick, Kicked, Unkick, Park                       db.Query
	Lost, Rekick, GiveUp, Turns                      db.Query
	Now, Caught, LostSources, Known                  db.Query
	LockHead                                         db.Query
}

// Store stores the webhook sources and the inboxes of all workspaces. It is safe for concurrent
// use.
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
	s := &Store{db: d, secrets: secrets, outbox: out, ids: ids, pairs: secrets.Pairs("webhook source", "webhook_sources")}
	return s, db.Load(files, &s.q)
}

// Found is a source that was found by its address, with the secrets that are valid now.
type Found struct {
	Source
	Workspace db.Workspace
	Now       time.Time // on the database's clock

	sealed [][]byte
}

// Find finds a source by the slug of its workspace and its own name. It returns [ErrNotFound] when
// there is none.
func (s *Store) Find(ctx context.Context, slug, name string) (Found, error) {
	var found []Found
	err := s.db.Each(ctx, "", db.Append(&found, func(scan db.Scan, f *Found) error {
		var sealed, old []byte
		err := scan(&f.Workspace, &f.ID, &f.Kind, &sealed, &old, db.Optional(&f.Header), db.Optional(&f.Encoding), db.Optional(&f.Prefix),
			db.Optional(&f.IDPath), &f.Enabled, &f.Now)
		f.Name, f.sealed = name, [][]byte{sealed}
		if old != nil {
			f.sealed = append(f.sealed, old)
		}
		return err
	}), s.q.FindSource, slug, name)
	return db.Found(found, err, "find a webhook source", ErrNotFound)
}

// Secrets decrypts the secrets that are valid for a source now, as [secret.Pairs.Open] does.
func (s *Store) Secrets(ctx context.Context, f Found) ([]secret.Value, error) {
	all, err := s.pairs.Open(ctx, f.Workspace, f.ID, f.sealed)
	if err != nil { // the sender repeats its request
		return nil, fmt.Errorf("open the secret of webhook source %s: %w", f.Name, err)
	}
	return all, nil
}

// Reseal encrypts the secrets of a workspace's sources with the current key, as [secret.Pairs.Reseal] does. It
// does not encrypt a previous secret that has expired: the first change of a secret clears it.
func (s *Store) Reseal(ctx context.Context, ws db.Workspace) (resealed int, failed []string, err error) {
	return s.pairs.Reseal(ctx, ws, s.q.SealedSources, s.q.ResealSource)
}

// Reject counts a request with a wrong signature. It stores nothing else.
func (s *Store) Reject(ctx context.Context, f Found) error {
	if _, err := s.db.Exec(ctx, f.Workspace, s.q.Reject, f.ID); err != nil {
		return fmt.Errorf("count a rejected request of webhook source %s: %w", f.Name, err)
	}
	return nil
}

// Source finds a source by its id or its name. Errors: [ErrNotFound].
func (s *Store) Source(ctx context.Context, ws db.Workspace, ref string) (Source, error) {
	var found []Source
	err := s.db.Each(ctx, ws, collectSources(&found), s.q.GetSource, idOf(ref), ref)
	return db.Found(found, err, "read a webhook source", ErrNotFound)
}

// SourceIn adds the read of a source by its id to a batch. The result is empty when there is none.
func (s *Store) SourceIn(b *db.Batch, id string) *[]Source {
	found := new([]Source)
	b.Each(collectSources(found), s.q.GetSource, id, id)
	return found
}

// Sources lists the sources of a workspace whose names come after a name, by name.
func (s *Store) Sources(ctx context.Context, ws db.Workspace, after string, limit int) ([]Source, error) {
	var found []Source
	if err := s.db.Each(ctx, ws, collectSources(&found), s.q.ListSources, after, limit); err != nil {
		return nil, fmt.Errorf("list webhook sources: %w", err)
	}
	return found, nil
}

// Draft is a source with an encrypted secret that is not stored yet.
type Draft struct {
	Source
	sealed []byte
}

// Seal checks a new source, gives it an id if it has none, and encrypts its secret. It must run before the transaction, because it
// may call the key service. Errors: [problem.InvalidError].
func (s *Store) Seal(ctx context.Context, ws db.Workspace, n Source, v secret.Value) (Draft, error) {
	if err := errors.Join(n.check(), CheckSecret(n.Kind, v)); err != nil {
		return Draft{}, joined(err)
	}
	n.ID = cmp.Or(n.ID, s.ids())
	return s.seal(ctx, ws, n, v)
}

// SealAnew checks and encrypts a further secret of a source for [Store.Rotate]. Errors:
// [problem.InvalidError].
func (s *Store) SealAnew(ctx context.Context, ws db.Workspace, of Source, v secret.Value) (Draft, error) {
	if err := CheckSecret(of.Kind, v); err != nil {
		return Draft{}, err
	}
	return s.seal(ctx, ws, of, v)
}

func (s *Store) seal(ctx context.Context, ws db.Workspace, of Source, v secret.Value) (Draft, error) {
	sealed, err := s.secrets.SealAt(ctx, s.pairs.At(ws, of.ID), v)
	if err != nil {
		return Draft{}, fmt.Errorf("seal the secret of a webhook source: %w", err)
	}
	return Draft{of, sealed}, nil
}

// Create stores a new source. Errors: [ErrTaken], [ErrFull].
func (s *Store) Create(ctx context.Context, tx *db.Tx, d Draft) (Source, error) {
	var rows int
	tx.Later().Exec(s.q.LockHead) // two concurrent calls must not exceed the limit
	if err := tx.One(ctx, []any{&rows}, s.q.CountSources); err != nil {
		return Source{}, fmt.Errorf("create a webhook source: %w", err)
	}
	if rows >= MaxSources {
		return Source{}, ErrFull
	}
	rules, err := encodeRules(d.Rules)
	if err != nil {
		return Source{}, err
	}
	hook, err := encodeHook(d.Hook)
	if err != nil {
		return Source{}, err
	}
	var made []Source
	err = tx.Each(ctx, collectSources(&made), s.q.InsertSource, d.ID, d.Name, d.Kind, db.Null(d.Header), db.Null(d.Encoding),
		db.Null(d.Prefix), db.Null(d.IDPath), rules, d.Enabled, d.sealed, d.CreatedBy, hook)
	s.catchUp(ctx, tx, d.Source)
	return written(made, err, "create")
}

// Update stores a changed source unless its version has changed since it was read. Errors:
// [problem.InvalidError], [ErrTaken], [ErrChanged].
func (s *Store) Update(ctx context.Context, tx *db.Tx, n Source) (Source, error) {
	if err := n.check(); err != nil {
		return Source{}, err
	}
	rules, err := encodeRules(n.Rules)
	if err != nil {
		return Source{}, err
	}
	hook, err := encodeHook(n.Hook)
	if err != nil {
		return Source{}, err
	}
	var made []Source
	err = tx.Each(ctx, collectSources(&made), s.q.UpdateSource, n.ID, n.Version, n.Name, db.Null(n.Header), db.Null(n.Encoding),
		db.Null(n.Prefix), db.Null(n.IDPath), rules, n.Enabled, hook)
	if err == nil && len(made) == 0 {
		return Source{}, ErrChanged
	}
	s.catchUp(ctx, tx, n)
	return written(made, err, "change")
}

// catchUp adds to the transaction that a source with a hook catches up now.
func (s *Store) catchUp(ctx context.Context, tx *db.Tx, n Source) {
	if n.Hook != nil && n.Enabled {
		s.outbox.ReviveNow(ctx, tx.Later(), kickCatchUp(n.ID))
	}
}

// overlap is how long the previous secret stays valid.
const overlap = 24 * time.Hour

// Rotate gives a source a new secret. The previous one stays valid for 24 hours.
func (s *Store) Rotate(ctx context.Context, tx *db.Tx, d Draft) (Source, error) {
	var made []Source
	err := tx.Each(ctx, collectSources(&made), s.q.RotateSource, d.ID, d.sealed, overlap.Milliseconds())
	return written(made, err, "rotate the secret of")
}

// Delete deletes a source and reports whether it existed. Its deliveries remain.
func (s *Store) Delete(ctx context.Context, tx *db.Tx, id string) (bool, error) {
	n, err := tx.Exec(ctx, s.q.DeleteSource, id)
	if err != nil {
		return false, fmt.Errorf("delete a webhook source: %w", err)
	}
	return n > 0, nil
}

func written(made []Source, err error, what string) (Source, error) {
	if errors.Is(err, db.ErrUnique) {
		return Source{}, ErrTaken
	}
	return db.Found(made, err, what+" a webhook source", ErrNotFound)
}

// idOf parses ref as an id. If ref is not an id, it returns an id that no row has.
func idOf(ref string) string {
	id, _ := uuid.Parse(ref)
	return id.String()
}

func encodeRules(rules []Rule) (string, error) {
	if len(rules) == 0 {
		return "[]", nil
	}
	raw, err := json.Marshal(rules)
	if err != nil {
		return "", fmt.Errorf("write the rules of a webhook source: %w", err)
	}
	return string(raw), nil
}

func collectSources(into *[]Source) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, n *Source) error {
		var hook, caught *string
		var rules string
		if err := scan(&n.ID, &n.Name, &n.Kind, db.Optional(&n.Header), db.Optional(&n.Encoding), db.Optional(&n.Prefix),
			db.Optional(&n.IDPath), &rules, &n.Enabled, &n.OldUntil, &hook, &caught, &n.Rejected, &n.RejectedAt, &n.Version, &n.CreatedBy, &n.CreatedAt, &n.UpdatedAt); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(rules), &n.Rules); err != nil {
			return fmt.Errorf("read the rules of webhook source %s: %w", n.Name, err)
		}
		if hook != nil {
			if err := json.Unmarshal([]byte(*hook), &n.Hook); err != nil {
				return fmt.Errorf("read the webhook of source %s: %w", n.Name, err)
			}
		}
		if caught != nil {
			if err := json.Unmarshal([]byte(*caught), &n.Caught); err != nil {
				return fmt.Errorf("read how far webhook source %s has caught up: %w", n.Name, err)
			}
		}
		return nil
	})
}
