package auth

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed *.sql
var files embed.FS

type queries struct {
	Memberships, EnsureUser, BindUser, SignIn                                         db.Query
	EndSessions, EndLocalSessions, LocalGeneration                                    db.Query
	LockWorkspace, Members, MemberByID, AddMember, SetRole, RemoveMember, CountOwners db.Query
	KeyByHash, TouchKey, AddKey, Keys, KeyByID, EditSiteKey, RevokeKey                db.Query
}

// Store stores the people of all workspaces, and the keys of programs. It is safe for concurrent
// use.
type Store struct {
	db     *db.DB
	q      queries
	ids    func() string
	random io.Reader
}

// NewStore returns a store. random is the source of all secrets.
func NewStore(d *db.DB, ids func() string, random io.Reader) (*Store, error) {
	s := &Store{db: d, ids: ids, random: random}
	return s, db.Load(files, &s.q)
}

// who identifies a person in one of three ways.
type who struct {
	id              string
	issuer, subject string
	email           string
}

// person returns a person with all memberships, the oldest first, and how often the person has used
// a sign-in link. It returns [ErrForbidden] if there is no such person, or if the person is
// disabled.
func (s *Store) person(ctx context.Context, w who) (p Principal, signIns int64, err error) {
	p.Kind = User
	err = s.db.Each(ctx, "", func(scan db.Scan) error {
		var ws *db.Workspace
		var role *Role
		if err := scan(&p.ID, &p.Email, &signIns, &p.Generation, &ws, &role); err != nil {
			return err
		}
		if ws != nil && role != nil {
			p.Memberships = append(p.Memberships, Membership{*ws, *role})
		}
		return nil
	}, s.q.Memberships, db.Null(w.id), db.Null(w.issuer), db.Null(w.subject), db.Null(w.email))
	switch {
	case err != nil:
		return Principal{}, 0, fmt.Errorf("look up a person: %w", err)
	case p.ID == "":
		return Principal{}, 0, ErrForbidden
	}
	return p, signIns, nil
}

// bind ties the person with an e-mail address to a subject of an issuer, unless the person is tied
// to one already. It returns the person of that subject.
func (s *Store) bind(ctx context.Context, w who) (Principal, error) {
	var b db.Batch
	b.Each(func(scan db.Scan) error { var id string; return scan(&id) }, s.q.BindUser, w.issuer, w.subject, w.email)
	// ErrUnique: another request of the same subject was faster.
	if err := s.db.Do(ctx, "", &b); err != nil && !errors.Is(err, db.ErrUnique) {
		return Principal{}, fmt.Errorf("bind a person to an issuer's subject: %w", err)
	}
	w.email = ""
	p, _, err := s.person(ctx, w)
	return p, err
}

// endSessions ends all sessions of a person or of the local admin.
func (s *Store) endSessions(ctx context.Context, p Principal) error {
	var b db.Batch
	if p.Kind == Local {
		b.Exec(s.q.EndLocalSessions)
		return s.db.Do(ctx, workspace.Default, &b)
	}
	b.Exec(s.q.EndSessions, p.ID)
	return s.db.Do(ctx, "", &b)
}
