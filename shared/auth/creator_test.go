package auth_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// A key has its own rights, but no more than its creator has now.
func TestAKeyMayNoMoreThanItsCreator(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.join(t, w.Workspace, address("other"), auth.Owner) // one owner remains
		ada := w.join(t, w.Workspace, address("ada"), auth.Owner)
		by := auth.Principal{Workspace: w.Workspace, Kind: auth.User, ID: ada.ID, Role: auth.Owner}
		keys := map[auth.Role]string{}
		for _, role := range []auth.Role{auth.Owner, auth.Admin, auth.Member, ""} {
			k := auth.APIKey{Name: "k", Kind: auth.APIKind, Role: role, Scopes: []auth.Scope{"*"}}
			if role == "" {
				k = auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}}
			}
			err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				_, clear, err := w.s.CreateKey(ctx, tx, by, k)
				keys[role] = clear.Reveal()
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		_, locals := w.key(t, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Owner, Scopes: []auth.Scope{"*"}})
		become := func(role auth.Role) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.SetRole(ctx, tx, ada.ID, role)
				return err
			}
		}
		const gone = "-"
		for _, step := range []struct {
			name                 string
			do                   func(context.Context, *db.Tx) error
			owner, admin, member auth.Role // the rights of keys of these roles
		}{
			{"as an owner", become(auth.Owner), auth.Owner, auth.Admin, auth.Member},
			{"as an admin", become(auth.Admin), auth.Admin, auth.Admin, auth.Member},
			{"as a member", become(auth.Member), auth.Member, auth.Member, auth.Member},
			{"as an owner again", become(auth.Owner), auth.Owner, auth.Admin, auth.Member},
			{"gone", func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, ada.ID) }, gone, gone, gone},
			{"back", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.AddMember(ctx, tx, ada.Email, "", auth.Admin, admin)
				return err
			}, auth.Admin, auth.Admin, auth.Member},
		} {
			if err := w.in(t, w.Workspace, step.do); err != nil {
				t.Fatal(err)
			}
			for role, want := range map[auth.Role]auth.Role{auth.Owner: step.owner, auth.Admin: step.admin, auth.Member: step.member, "": ""} {
				p, err := w.s.VerifyKey(t.Context(), keys[role])
				if want == gone && !errors.Is(err, auth.ErrInvalid) || want != gone && (err != nil || p.Role != want) {
					t.Errorf("%s the key of role %q has %q (%v), want %q", step.name, role, p.Role, err, want)
				}
			}
			if p, err := w.s.VerifyKey(t.Context(), locals.Reveal()); err != nil || p.Role != auth.Owner {
				t.Errorf("%s: the local admin's key has %q, %v", step.name, p.Role, err)
			}
		}
	})
}

// A key is useless if its creator may not sign in any more.
func TestAKeyOfADisabledPerson(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite)) // only here may the application disable people
	ada := w.join(t, w.Workspace, address("ada"), auth.Owner)
	var clear string
	err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
		_, key, err := w.s.CreateKey(ctx, tx, auth.Principal{Kind: auth.User, ID: ada.ID, Role: auth.Owner},
			auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}})
		clear = key.Reveal()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.DB.Exec(t.Context(), "", w.q.Disable, ada.ID); err != nil {
		t.Fatal(err)
	}
	if p, err := w.s.VerifyKey(t.Context(), clear); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheFirstOwnerMayBeAMemberAlready(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada := w.join(t, w.Workspace, address("ada"), auth.Member)
		err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			made, err := w.s.FirstOwner(ctx, tx, ada.Email, admin)
			if !made {
				t.Error("none was made")
			}
			return err
		})
		if got := w.members(t, w.Workspace); err != nil || len(got) != 1 || got[0] != ada.Email+" OWNER" {
			t.Errorf("there are %q, %v", got, err)
		}
		err = w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.FirstOwner(ctx, tx, "nobody", admin)
			return err
		})
		if wrong, ok := errors.AsType[*auth.FieldError](err); !ok || wrong.Field != "email" {
			t.Errorf("no address: %v", err)
		}
	})
}
