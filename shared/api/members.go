package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// creation is the response of a route that has created something.
type creation[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// memberItem is a member of a workspace.
type memberItem struct {
	UserID    string    `json:"userId"`
	Email     string    `json:"email"`
	Name      string    `json:"name,omitempty"`
	Role      auth.Role `json:"role" enum:"OWNER,ADMIN,MEMBER"`
	CreatedAt time.Time `json:"createdAt"`
}

func memberOf(p auth.Person) memberItem {
	return memberItem{UserID: p.ID, Email: p.Email, Name: p.Name, Role: p.Role, CreatedAt: p.CreatedAt.UTC()}
}

// listMembers lists a workspace's members by e-mail address. It is called by GET /api/v1/members.
func (s *server) listMembers(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"500"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[memberItem]], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := auth.Email(after.key); in.Cursor != "" && err != nil {
		return nil, invalid(problem.At("query.cursor", "expected a cursor of this listing"))
	}
	found, err := s.People.Members(ctx, workspace(ctx), after.key, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(p auth.Person) string { return p.Email }, memberOf), nil
}

// addMember adds a person to the workspace. It is called by POST /api/v1/members.
func (s *server) addMember(ctx context.Context, in *struct {
	Body struct {
		Email string    `json:"email" minLength:"3" maxLength:"254"`
		Name  string    `json:"name,omitempty" maxLength:"200"`
		Role  auth.Role `json:"role" enum:"OWNER,ADMIN,MEMBER"`
	}
}) (*createdAt[memberItem], error) {
	by, _ := auth.From(ctx)
	var p auth.Person
	err := s.change(ctx, "member.add", func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = s.People.AddMember(ctx, tx, in.Body.Email, in.Body.Name, in.Body.Role, by)
		return err
	}, "user", &p.ID, "role", in.Body.Role)
	if err != nil {
		return nil, err
	}
	return &createdAt[memberItem]{"/api/v1/members/" + p.ID, tagOf(p.Version), memberOf(p)}, nil
}

// MemberPath names a member.
type MemberPath struct {
	UserID string `path:"userId" format:"uuid"`
}

// getMember returns one member. It is called by GET /api/v1/members/{userId}.
func (s *server) getMember(ctx context.Context, in *MemberPath) (*versioned[memberItem], error) {
	p, err := s.People.Member(ctx, workspace(ctx), in.UserID)
	if err != nil {
		return nil, err
	}
	return &versioned[memberItem]{tagOf(p.Version), memberOf(p)}, nil
}

// patchMember changes a member's role. It is called by PATCH /api/v1/members/{userId}.
func (s *server) patchMember(ctx context.Context, in *struct {
	MemberPath
	IfMatch
	Body struct {
		Role auth.Role `json:"role" enum:"OWNER,ADMIN,MEMBER"`
	}
}) (*versioned[memberItem], error) {
	var p auth.Person
	var was auth.Role
	err := s.change(ctx, "member.update", func(ctx context.Context, tx *db.Tx) (err error) {
		if p, err = s.People.LockMember(ctx, tx, in.UserID); err != nil {
			return err
		}
		was = p.Role
		if err := in.matches(p.Version); err != nil {
			return err
		}
		p, err = s.People.SetRole(ctx, tx, p.ID, in.Body.Role)
		return err
	}, "user", &p.ID, "role", in.Body.Role, "was", &was)
	if err != nil {
		return nil, err
	}
	return &versioned[memberItem]{tagOf(p.Version), memberOf(p)}, nil
}

// removeMember removes a person from the workspace. It is called by DELETE
// /api/v1/members/{userId}.
func (s *server) removeMember(ctx context.Context, in *MemberPath) (*struct{}, error) {
	return nil, s.change(ctx, "member.remove", func(ctx context.Context, tx *db.Tx) error {
		return s.People.RemoveMember(ctx, tx, in.UserID)
	}, "user", in.UserID)
}

// signOutMember ends all sessions of a member. It is called by POST
// /api/v1/members/{userId}/sign-out.
func (s *server) signOutMember(ctx context.Context, in *struct {
	MemberPath
	Body *struct{}
}) (*versioned[memberItem], error) {
	var p auth.Person
	err := s.change(ctx, "member.sign_out", func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = s.People.EndSessions(ctx, tx, in.UserID)
		return err
	}, "user", &p.ID)
	if err != nil {
		return nil, err
	}
	return &versioned[memberItem]{tagOf(p.Version), memberOf(p)}, nil
}

// change runs fn and records it as an activity of the operator, in one transaction. input holds
// alternating names and values for the record. A value may be a pointer that fn sets.
func (s *server) change(ctx context.Context, what string, fn func(context.Context, *db.Tx) error, input ...any) error {
	return s.changeIn(ctx, workspace(ctx), "", what, fn, input...)
}

// changeOnce is change. It fails with [db.ErrUnique], and changes nothing, if an earlier execution of the same
// request has made the change.
func (s *server) changeOnce(ctx context.Context, what string, fn func(context.Context, *db.Tx) error, input ...any) error {
	return s.changeIn(ctx, workspace(ctx), s.newID(ctx), what, fn, input...)
}

// changeIn is change in a workspace that may differ from the request's. id is that of the activity; empty: a new one.
func (s *server) changeIn(
	ctx context.Context, ws db.Workspace, id, what string, fn func(context.Context, *db.Tx) error, input ...any,
) error {
	by, _ := auth.From(ctx)
	begun := s.Clock()
	return s.DB.Tx(ctx, ws, func(ctx context.Context, tx *db.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		s.Activity.Record(ctx, tx.Later(), activity.Entry{
			ID: id, Agent: activity.Operator, Surface: trace.Operate, Skill: what, Status: activity.Success, Duration: s.Clock().Sub(begun),
			Input: object(append([]any{"by", by.String()}, input...)...),
		})
		return nil
	})
}

// keyItem is an API key or a site key, without the key itself.
type keyItem struct {
	ID         string       `json:"id"`
	Name       string       `json:"name"`
	Kind       auth.KeyKind `json:"kind" enum:"api,site"`
	Prefix     string       `json:"prefix" doc:"How it begins"`
	Role       auth.Role    `json:"role,omitempty"`
	Scopes     []auth.Scope `json:"scopes"`
	Origins    []string     `json:"origins"`
	Persona    string       `json:"persona,omitempty" doc:"Of a site key: the persona that its visitors talk with"`
	CreatedBy  string       `json:"createdBy"`
	CreatedAt  time.Time    `json:"createdAt"`
	ExpiresAt  *time.Time   `json:"expiresAt,omitempty"`
	LastUsedAt *time.Time   `json:"lastUsedAt,omitempty"`
	RevokedAt  *time.Time   `json:"revokedAt,omitempty"`
	// Key is set only in the response that creates the key.
	Key string `json:"key,omitempty" doc:"The key itself, shown this once"`
}

func keyOf(k auth.APIKey) keyItem {
	item := keyItem{
		ID: k.ID, Name: k.Name, Kind: k.Kind, Prefix: k.Prefix, Role: k.Role, Scopes: k.Scopes, Origins: k.Origins, Persona: personaOfKey(k),
		CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt.UTC(), ExpiresAt: utc(k.ExpiresAt), LastUsedAt: utc(k.LastUsedAt),
		RevokedAt: utc(k.RevokedAt),
	}
	if item.Scopes == nil {
		item.Scopes = []auth.Scope{}
	}
	if item.Origins == nil {
		item.Origins = []string{}
	}
	return item
}

// listKeys lists the keys of the workspace. It is called by GET /api/v1/api-keys.
func (s *server) listKeys(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"500"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[keyItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.People.Keys(ctx, workspace(ctx), "", before.ID, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(k auth.APIKey) string { return k.ID }, keyOf), nil
}

// createKey creates a key. Its response is the only one that shows it. It is called by POST
// /api/v1/api-keys.
func (s *server) createKey(ctx context.Context, in *struct {
	Body struct {
		Name      string       `json:"name" minLength:"1" maxLength:"200"`
		Kind      auth.KeyKind `json:"kind,omitempty" enum:"api,site" default:"api"`
		Role      auth.Role    `json:"role,omitempty" enum:"OWNER,ADMIN,MEMBER" doc:"Of an api key, which needs it; at most the caller's"`
		Scopes    []auth.Scope `json:"scopes,omitempty" maxItems:"20" doc:"Of an api key, which needs one: such as skills:read or *"`
		Origins   []string     `json:"origins,omitempty" maxItems:"20" doc:"Of a site key: the origins of its pages, such as https://example.com"`
		ExpiresAt *time.Time   `json:"expiresAt,omitempty"`
	}
}) (*creation[keyItem], error) {
	by, _ := auth.From(ctx)
	b := in.Body
	k := auth.APIKey{ID: s.newID(ctx), Name: b.Name, Kind: b.Kind, Role: b.Role, Scopes: b.Scopes, Origins: b.Origins, ExpiresAt: b.ExpiresAt}
	if k.Kind == "" {
		k.Kind = auth.APIKind
	}
	var shown string
	err := s.change(ctx, "api_key.create", func(ctx context.Context, tx *db.Tx) error {
		made, key, err := s.People.CreateKey(ctx, tx, by, k)
		k, shown = made, key.Reveal()
		return err
	}, "id", &k.ID, "name", b.Name, "kind", k.Kind, "role", b.Role)
	if err := shownOnce(ctx, err, s.People.Key); err != nil {
		return nil, err
	}
	item := keyOf(k)
	item.Key = shown
	return &creation[keyItem]{Location: "/api/v1/api-keys/" + k.ID, Body: item}, nil
}

// getKey returns one key. It is called by GET /api/v1/api-keys/{id}.
func (s *server) getKey(ctx context.Context, in *IDPath) (*answer[keyItem], error) {
	k, err := s.People.Key(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return answered(keyOf(k)), nil
}

// revokeKey revokes a key. It is called by DELETE /api/v1/api-keys/{id}.
func (s *server) revokeKey(ctx context.Context, in *IDPath) (*struct{}, error) {
	return nil, s.change(ctx, "api_key.revoke", func(ctx context.Context, tx *db.Tx) error {
		_, err := s.People.RevokeKey(ctx, tx, in.ID)
		return err
	}, "id", in.ID)
}

// signedIn is a response that sets the session's cookie.
type signedIn struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      meItem
}

// startSession exchanges the token of a sign-in link, or the admin token, for a session. It is
// called by POST /api/v1/session.
func (s *server) startSession(ctx context.Context, in *struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"8192" doc:"Of a sign-in link, or the admin token"`
	}
}) (*signedIn, error) {
	p, err := s.Auth.Authenticate(ctx, in.Body.Token)
	if err != nil || p.Kind != auth.Local {
		if p, err = s.Sessions.RedeemLink(ctx, in.Body.Token); err != nil {
			address, _ := ctx.Value(addressKey{}).(string)
			if p := s.tooMany(address, err); p != nil {
				return nil, p
			}
			return nil, err
		}
	}
	cookie, err := s.Sessions.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	return &signedIn{*cookie, s.introduce(ctx, p)}, nil
}

var noSession = problem.New(http.StatusConflict, "no_session",
	"there is no session here: with a token, the header X-Workspace-Id says which workspace")

// chooseWorkspace starts a session in another of the person's workspaces. It is called by PUT
// /api/v1/session.
func (s *server) chooseWorkspace(ctx context.Context, in *struct {
	Body struct {
		WorkspaceID string `json:"workspaceId" format:"uuid"`
	}
}) (*signedIn, error) {
	by, _ := auth.From(ctx)
	if by.SignedIn.IsZero() {
		return nil, noSession
	}
	p, err := by.In(in.Body.WorkspaceID)
	if err != nil {
		return nil, noWorkspace
	}
	cookie, err := s.Sessions.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	return &signedIn{*cookie, s.introduce(ctx, p)}, nil
}

// endSession ends the session. It is called by DELETE /api/v1/session.
func (s *server) endSession(ctx context.Context, _ *struct{}) (*struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
}, error) {
	by, _ := auth.From(ctx)
	cookie, err := s.Sessions.End(ctx, by)
	if err != nil {
		return nil, err
	}
	return &struct {
		SetCookie http.Cookie `header:"Set-Cookie"`
	}{*cookie}, nil
}
