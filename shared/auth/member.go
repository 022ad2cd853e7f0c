package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

var (
	// ErrNotFound says that a workspace has no such member, or no such key.
	ErrNotFound = errors.New("not found")
	// ErrTaken says that the person already is a member of the workspace.
	ErrTaken = errors.New("is a member already")
	// ErrLastOwner says that a workspace would be left without an owner.
	ErrLastOwner = errors.New("a workspace has an owner: make somebody else one first")
)

// Person is a member of a workspace.
type Person struct {
	ID         string
	Email      string
	Name       string     // the person's name in this workspace
	DisabledAt *time.Time // set: the person may not sign in
	Role       Role
	Version    int    // counts changes of the role, from 1
	CreatedBy  string // who made the person a member
	CreatedAt  time.Time
}

// Members lists the members of a workspace by e-mail address: at most limit, starting after the
// address after.
func (s *Store) Members(ctx context.Context, ws db.Workspace, after string, limit int) ([]Person, error) {
	var out []Person
	if err := s.db.Each(ctx, ws, collectPeople(&out), s.q.Members, after, limit); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return out, nil
}

// Member reads one member. Errors: [ErrNotFound].
func (s *Store) Member(ctx context.Context, ws db.Workspace, userID string) (Person, error) {
	var found []Person
	err := s.db.Each(ctx, ws, collectPeople(&found), s.q.MemberByID, userID)
	return only(found, err)
}

// LockMember reads a member. Until the transaction ends, no other transaction can change a member.
// Errors: [ErrNotFound].
func (s *Store) LockMember(ctx context.Context, tx *db.Tx, userID string) (Person, error) {
	tx.Later().Exec(s.q.LockWorkspace)
	return s.member(ctx, tx, userID)
}

// AddMember makes a person a member. It creates the person if nobody has that e-mail address yet.
// The result does not reveal whether the person existed. Errors: [FieldError], [ErrTaken].
func (s *Store) AddMember(ctx context.Context, tx *db.Tx, email, name string, role Role, by Principal) (Person, error) {
	email, err := Email(email)
	switch {
	case err != nil:
		return Person{}, err
	case utf8.RuneCountInString(name) > 255 || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return Person{}, &FieldError{"name", "has at most 255 characters"}
	case role.rank() == 0:
		return Person{}, &FieldError{"role", "is OWNER, ADMIN or MEMBER"}
	}
	id, err := s.ensure(ctx, tx, email)
	if err != nil {
		return Person{}, fmt.Errorf("add a member: %w", err)
	}
	_, err = tx.Exec(ctx, s.q.AddMember, id, name, role, by.String())
	switch {
	case errors.Is(err, db.ErrUnique):
		return Person{}, ErrTaken
	case err != nil:
		return Person{}, fmt.Errorf("add a member: %w", err)
	}
	return s.member(ctx, tx, id)
}

// ensure returns the id of the person with an e-mail address, and creates the person if necessary.
// The id is random, so it does not reveal when it was created.
func (s *Store) ensure(ctx context.Context, tx *db.Tx, email string) (id string, err error) {
	fresh, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return "", err
	}
	err = tx.One(ctx, []any{&id}, s.q.EnsureUser, fresh.String(), email)
	return id, err
}

// FirstOwner makes a person the owner of the transaction's workspace, unless the workspace has an
// owner. The person may be a member with another role. It reports whether it made an owner. Errors:
// [FieldError].
func (s *Store) FirstOwner(ctx context.Context, tx *db.Tx, email string, by Principal) (bool, error) {
	email, err := Email(email)
	if err != nil {
		return false, err
	}
	var owners int
	tx.Later().Exec(s.q.LockWorkspace)
	if err := tx.One(ctx, []any{&owners}, s.q.CountOwners); err != nil {
		return false, fmt.Errorf("look for an owner: %w", err)
	}
	if owners > 0 {
		return false, nil
	}
	id, err := s.ensure(ctx, tx, email)
	if err != nil {
		return false, fmt.Errorf("make the first owner: %w", err)
	}
	_, err = s.SetRole(ctx, tx, id, Owner)
	if errors.Is(err, ErrNotFound) { // not a member yet
		_, err = s.AddMember(ctx, tx, email, "", Owner, by)
	}
	return err == nil, err
}

// SetRole changes a member's role. Errors: [ErrNotFound], [ErrLastOwner], [FieldError]. The caller
// must check that only an owner does this.
func (s *Store) SetRole(ctx context.Context, tx *db.Tx, userID string, role Role) (Person, error) {
	if role.rank() == 0 {
		return Person{}, &FieldError{"role", "is OWNER, ADMIN or MEMBER"}
	}
	if err := s.change(ctx, tx, userID, s.q.SetRole, role); err != nil {
		return Person{}, err
	}
	return s.member(ctx, tx, userID)
}

// RemoveMember ends a membership. The person still exists. Errors: [ErrNotFound], [ErrLastOwner].
func (s *Store) RemoveMember(ctx context.Context, tx *db.Tx, userID string) error {
	return s.change(ctx, tx, userID, s.q.RemoveMember)
}

// EndSessions ends all sessions of a member, in every workspace. Errors: [ErrNotFound].
func (s *Store) EndSessions(ctx context.Context, tx *db.Tx, userID string) (Person, error) {
	p, err := s.member(ctx, tx, userID)
	if err != nil {
		return Person{}, err
	}
	if _, err := tx.Exec(ctx, s.q.EndSessions, p.ID); err != nil {
		return Person{}, fmt.Errorf("end the sessions of a member: %w", err)
	}
	return p, nil
}

// change runs a statement that must not remove the last owner. Two concurrent transactions that
// each see the other's owner would remove both, so they wait for the lock on the workspace's row.
func (s *Store) change(ctx context.Context, tx *db.Tx, userID string, q db.Query, args ...any) error {
	if uuid.Validate(userID) != nil {
		return ErrNotFound
	}
	tx.Later().Exec(s.q.LockWorkspace)
	n, err := tx.Exec(ctx, q, append([]any{userID}, args...)...)
	if err != nil {
		return fmt.Errorf("change a member: %w", err)
	}
	if n > 0 {
		return nil
	}
	if _, err := s.member(ctx, tx, userID); err != nil {
		return err
	}
	return ErrLastOwner
}

func (s *Store) member(ctx context.Context, tx *db.Tx, userID string) (Person, error) {
	var found []Person
	err := tx.Each(ctx, collectPeople(&found), s.q.MemberByID, userID)
	return only(found, err)
}

func only(found []Person, err error) (Person, error) {
	return db.Found(found, err, "read a member", ErrNotFound)
}

func collectPeople(into *[]Person) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, p *Person) error {
		return scan(&p.ID, &p.Email, &p.Name, &p.DisabledAt, &p.Role, &p.Version, &p.CreatedBy, &p.CreatedAt)
	})
}
