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
	// MaxValue is the most bytes a secret may have.
	MaxValue = 64 << 10
	// MaxName is the most characters its name may have.
	MaxName = 64
)

var (
	// ErrNotFound says that there is no secret of that name; a [NotFoundError] names it.
	ErrNotFound = errors.New("no such secret")
	// ErrName says that a text is no name of a secret.
	ErrName = errors.New("a secret's name has 1 to 64 letters, digits and . _ -")
	// ErrValue says that a text can't be kept as a secret.
	ErrValue = errors.New("a secret has 1 to 65536 bytes of UTF-8 text")
)

// A NotFoundError names the secret that is not there.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return "no secret named " + e.Name }

// Is makes it [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ownPrefix begins the names of the keys that are made here: no name of a secret does.
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

// Info is what may be told of a secret.
type Info struct {
	Name      string
	Version   int64 // counts the values it has had, from 1
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
}

type queries struct{ Put, Make, Sealed, Info, List, Delete, Stale, Reseal, CountStale, Mark, Known db.Query }

// Store keeps the secrets of all workspaces. A write is one row and needs no lane:
// of two at once the later counts.
type Store struct {
	db     *db.DB
	q      queries
	sealer *Sealer
}

// New makes a store whose values are sealed with the keeper's keys. A keeper may be
// nil; what needs a key then answers [ErrNoKey].
func New(d *db.DB, k Keeper) (*Store, error) {
	s := &Store{db: d, sealer: NewSealer(k)}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return s, nil
}

func placeOf(ws db.Workspace, name string) Place {
	return Place{Workspace: ws, Table: "secrets", Column: "sealed", Row: name}
}

// SealAt seals a value that is kept elsewhere than in the table secrets; [Store.OpenAt] opens
// it there. Both may ask the key service: don't call them in a transaction.
func (s *Store) SealAt(ctx context.Context, at Place, v Value) ([]byte, error) {
	return s.sealer.Seal(ctx, at, v)
}

// OpenAt opens what [Store.SealAt] has sealed for the place.
func (s *Store) OpenAt(ctx context.Context, at Place, sealed []byte) (Value, error) {
	return s.sealer.Open(ctx, at, sealed)
}

// Draft is a value that is sealed and not yet written.
type Draft struct {
	name, keyID string
	sealed      []byte
}

// Seal makes a value ready to be written under a name: a name and a value that can't
// be are [ErrName] and [ErrValue]. It comes before the transaction that writes it,
// for it may ask the key service.
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

// PutIn writes a draft: under a new name, or in the place of the value that the name
// has. tx is of the workspace that the draft was sealed for. by is who does it.
func (s *Store) PutIn(ctx context.Context, tx *db.Tx, d Draft, by string) (Info, error) {
	info := Info{Name: d.name, CreatedBy: by}
	err := tx.One(ctx, []any{&info.Version, &info.CreatedAt, &info.UpdatedAt}, s.q.Put, d.name, d.sealed, d.keyID, by)
	if err != nil {
		return Info{}, fmt.Errorf("put secret %s: %w", d.name, err)
	}
	return info, nil
}

// Put seals and writes a value; see [Store.Seal] and [Store.PutIn].
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

// Resolve gives a secret. A [Redactor] of the context learns it, so that what the
// run says from then on does not repeat it. A name that is not there is a
// [NotFoundError], a text that is no name [ErrName].
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

// open reads a secret, also as it is sealed.
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

// Info tells of one secret; one that is not there is a [NotFoundError].
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

// List tells of the secrets with a name behind after, by name, at most limit.
func (s *Store) List(ctx context.Context, ws db.Workspace, after string, limit int) ([]Info, error) {
	var out []Info
	err := s.db.Each(ctx, ws, func(scan db.Scan) error {
		var i Info
		err := scan(&i.Name, &i.Version, &i.CreatedBy, &i.CreatedAt, &i.UpdatedAt)
		out = append(out, i)
		return err
	}, s.q.List, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return out, nil
}

// DeleteIn deletes a secret; one that is not there is a [NotFoundError].
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

// Delete is DeleteIn in a transaction of its own.
func (s *Store) Delete(ctx context.Context, ws db.Workspace, name string) error {
	return s.db.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error { return s.DeleteIn(ctx, tx, name) })
}
