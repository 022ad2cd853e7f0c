package secret

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

//go:embed *.sql
var files embed.FS

const (
	// MaxValue is the largest size of a secret, in bytes.
	MaxValue = 64 << 10
	// MaxName is the largest length of a secret's name, in characters.
	MaxName = 64
)

var (
	// ErrNotFound says that there is no secret with that name. A [NotFoundError] names it.
	ErrNotFound = errors.New("no such secret")
	// ErrName says that a text is not a valid name of a secret.
	ErrName = errors.New("a secret's name has 1 to 64 letters, digits and . _ -")
	// ErrValue says that a text can't be stored as a secret.
	ErrValue = errors.New("a secret has 1 to 65536 bytes of UTF-8 text")
)

// A NotFoundError names a missing secret.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return "no secret named " + e.Name }

// Is reports whether target is [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ownPrefix begins the names of the keys that [Store.Key] creates. A valid name does not begin with
// it.
const ownPrefix = ":"

// ValidName reports whether a secret may have this name.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > MaxName {
		return false
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Info is the public information about a secret.
type Info struct {
	Name      string
	Version   int64 // number of values so far, from 1
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
}

type queries struct{ Put, Make, Sealed, Info, List, Delete, Stale, Reseal, CountStale, Mark, Known db.Query }

// Store stores the secrets of all workspaces. A write changes one row and needs no lane; the last
// of concurrent writes wins.
type Store struct {
	db     *db.DB
	q      queries
	sealer *Sealer
}

// New returns a store that seals values with the keeper's keys. The keeper may be nil; then methods
// that need a key return [ErrNoKey].
func New(d *db.DB, k Keeper) (*Store, error) {
	s := &Store{db: d, sealer: NewSealer(k)}
	return s, db.Load(files, &s.q)
}

func placeOf(ws db.Workspace, name string) Place {
	return Place{Workspace: ws, Table: "secrets", Column: "sealed", Row: name}
}

// SealAt seals a value that is stored outside of the table secrets. [Store.OpenAt] opens it. Both
// may call the key service: don't call them in a transaction.
func (s *Store) SealAt(ctx context.Context, at Place, v Value) ([]byte, error) {
	return s.sealer.Seal(ctx, at, v)
}

// OpenAt opens a value that [Store.SealAt] has sealed for the place.
func (s *Store) OpenAt(ctx context.Context, at Place, sealed []byte) (Value, error) {
	return s.sealer.Open(ctx, at, sealed)
}

// Draft is a sealed value that is not stored yet.
type Draft struct {
	name, keyID string
	sealed      []byte
}

// Seal prepares a value to be stored under a name. It returns [ErrName] or [ErrValue] for an
// invalid name or value. Call it before the transaction that stores the draft, because it may call
// the key service.
func (s *Store) Seal(ctx context.Context, ws db.Workspace, name string, v Value) (Draft, error) {
	if !ValidName(name) {
		return Draft{}, ErrName
	}
	return s.seal(ctx, ws, name, v)
}

func (s *Store) seal(ctx context.Context, ws db.Workspace, name string, v Value) (Draft, error) {
	if text := v.Reveal(); text == "" || len(text) > MaxValue || !utf8.ValidString(text) {
		return Draft{}, ErrValue
	}
	sealed, err := s.sealer.Seal(ctx, placeOf(ws, name), v)
	if err != nil {
		return Draft{}, fmt.Errorf("put secret %s: %w", name, err)
	}
	keyID, err := KeyOf(sealed)
	if err != nil {
		return Draft{}, fmt.Errorf("put secret %s: %w", name, err)
	}
	return Draft{name, keyID, sealed}, nil
}

// PutIn stores a draft under a new name, or replaces the value of an existing one. tx must belong
// to the draft's workspace. by is the actor.
func (s *Store) PutIn(ctx context.Context, tx *db.Tx, d Draft, by string) (Info, error) {
	info := Info{Name: d.name, CreatedBy: by}
	err := tx.One(ctx, []any{&info.Version, &info.CreatedAt, &info.UpdatedAt}, s.q.Put, d.name, d.sealed, d.keyID, by)
	if err != nil {
		return Info{}, fmt.Errorf("put secret %s: %w", d.name, err)
	}
	return info, nil
}

// Put seals and stores a value; see [Store.Seal] and [Store.PutIn].
func (s *Store) Put(ctx context.Context, ws db.Workspace, name string, v Value, by string) (info Info, err error) {
	d, err := s.Seal(ctx, ws, name, v)
	if err != nil {
		return Info{}, err
	}
	err = s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		info, err = s.PutIn(ctx, tx, d, by)
		return err
	})
	return info, err
}

// Resolve returns a secret. It adds the secret to the [redact.Redactor] of the context, so that
// later output of the run does not repeat it. Errors: a [NotFoundError] for a missing secret,
// [ErrName] for an invalid name.
func (s *Store) Resolve(ctx context.Context, ws db.Workspace, name string) (Value, error) {
	if !ValidName(name) {
		return Value{}, ErrName
	}
	v, _, err := s.open(ctx, ws, name)
	if err != nil {
		return Value{}, err
	}
	redact.From(ctx).Add(v)
	return v, nil
}

// open reads a secret and returns it with its sealed form.
func (s *Store) open(ctx context.Context, ws db.Workspace, name string) (v Value, sealed []byte, err error) {
	err = s.db.One(ctx, ws, []any{&sealed}, s.q.Sealed, name)
	if errors.Is(err, db.ErrNoRows) {
		return Value{}, nil, &NotFoundError{name}
	}
	if err == nil {
		v, err = s.sealer.Open(ctx, placeOf(ws, name), sealed)
	}
	if err != nil {
		return Value{}, sealed, fmt.Errorf("resolve secret %s: %w", name, err)
	}
	return v, sealed, nil
}

// Info returns the information about one secret. It returns a [NotFoundError] for a missing one.
func (s *Store) Info(ctx context.Context, ws db.Workspace, name string) (Info, error) {
	if !ValidName(name) {
		return Info{}, &NotFoundError{name}
	}
	i := Info{Name: name}
	err := s.db.One(ctx, ws, []any{&i.Version, &i.CreatedBy, &i.CreatedAt, &i.UpdatedAt}, s.q.Info, name)
	if errors.Is(err, db.ErrNoRows) {
		return Info{}, &NotFoundError{name}
	}
	if err != nil {
		return Info{}, fmt.Errorf("read about secret %s: %w", name, err)
	}
	return i, nil
}

// List returns the information about the secrets with a name after after, ordered by name, at most
// limit.
func (s *Store) List(ctx context.Context, ws db.Workspace, after string, limit int) ([]Info, error) {
	var out []Info
	err := s.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, i *Info) error {
		return scan(&i.Name, &i.Version, &i.CreatedBy, &i.CreatedAt, &i.UpdatedAt)
	}), s.q.List, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return out, nil
}

// DeleteIn deletes a secret. It returns a [NotFoundError] for a missing one.
func (s *Store) DeleteIn(ctx context.Context, tx *db.Tx, name string) error {
	if !ValidName(name) {
		return ErrName
	}
	n, err := tx.Exec(ctx, s.q.Delete, name)
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	if n == 0 {
		return &NotFoundError{name}
	}
	return nil
}

// Delete is DeleteIn in its own transaction.
func (s *Store) Delete(ctx context.Context, ws db.Workspace, name string) error {
	return s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error { return s.DeleteIn(ctx, tx, name) })
}
