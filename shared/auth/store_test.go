package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func (w *world) members(t testing.TB, ws db.Workspace) (emails []string) {
	t.Helper()
	people, err := w.s.Members(t.Context(), ws, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range people {
		emails = append(emails, p.Email+" "+string(p.Role))
	}
	return emails
}

func TestMembers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada, bob := address("ada"), address("bob")
		p := w.join(t, w.Workspace, strings.ToUpper(ada), auth.Owner)
		if p.Email != ada || p.Role != auth.Owner || p.CreatedBy != "local:admin" || p.CreatedAt.IsZero() {
			t.Errorf("added %+v", p)
		}
		q := w.join(t, w.Workspace, bob, auth.Member)
		if got := w.members(t, w.Workspace); !slices.Equal(got, []string{ada + " OWNER", bob + " MEMBER"}) {
			t.Errorf("there are %q", got)
		}
		if page, err := w.s.Members(t.Context(), w.Workspace, ada, 1); err != nil || len(page) != 1 || page[0].ID != q.ID {
			t.Errorf("the second page: %+v, %v", page, err)
		}
		err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
			q, err = w.s.SetRole(ctx, tx, q.ID, auth.Admin)
			return err
		})
		if err != nil || q.Role != auth.Admin || q.Version != 2 || p.Version != 1 {
			t.Errorf("%+v, %v", q, err)
		}
		err = w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, q.ID) })
		if got := w.members(t, w.Workspace); err != nil || !slices.Equal(got, []string{ada + " OWNER"}) {
			t.Errorf("%v, left are %q", err, got)
		}
	})
}

// Another workspace learns nothing about a person that it adds: neither the name, nor whether the
// person existed. The person's requests without a workspace go to the same workspace as before.
func TestWhoIsKnownStaysWhereTheyAre(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first, second := dbtest.NewWorkspace(t, w.DB), dbtest.NewWorkspace(t, w.DB)
		if first < second { // the order of the ids must not matter
			first, second = second, first
		}
		ada := address("ada")
		add := func(ws db.Workspace, name string, role auth.Role) (p auth.Person) {
			t.Helper()
			err := w.in(t, ws, func(ctx context.Context, tx *db.Tx) (err error) {
				p, err = w.s.AddMember(ctx, tx, ada, name, role, admin)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		s, err := w.s.NewSessions(signedWith("ours", time.Now))
		if err != nil {
			t.Fatal(err)
		}
		known := add(first, "Ada Lovelace", auth.Member)
		if parsed := uuid.MustParse(known.ID); parsed.Version() != 4 {
			t.Errorf("the id %s tells since when", known.ID)
		}
		w.Skew.Advance(time.Second)
		if there := add(second, "the new one", auth.Owner); there.Name != "the new one" {
			t.Errorf("they see %+v", there)
		}
		if again, err := w.s.Member(t.Context(), first, known.ID); err != nil || again.Name != "Ada Lovelace" {
			t.Errorf("here they are %+v, %v", again, err)
		}
		v, err := s.MintLink(t.Context(), ada)
		p, err2 := s.RedeemLink(t.Context(), reveal(t, v, err))
		if err2 != nil || p.Workspace != first || p.Role != auth.Member || len(p.Memberships) != 2 || p.Memberships[0].Workspace != first {
			t.Errorf("they come to %+v, %v", p, err2)
		}
	})
}

func TestMembersAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada := w.join(t, w.Workspace, address("ada"), auth.Owner)
		field := new(auth.FieldError)
		for _, c := range []struct {
			name string
			do   func(context.Context, *db.Tx) error
			is   func(error) bool
		}{
			{"a member twice", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.AddMember(ctx, tx, ada.Email, "", auth.Member, admin)
				return err
			}, func(err error) bool { return errors.Is(err, auth.ErrTaken) }},
			{"no address", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.AddMember(ctx, tx, "ada", "", auth.Member, admin)
				return err
			}, func(err error) bool { return errors.As(err, &field) && field.Field == "email" }},
			{"no role", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.AddMember(ctx, tx, address("x"), "", "", admin)
				return err
			}, func(err error) bool { return errors.As(err, &field) && field.Field == "role" }},
			{"another role for a stranger", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.SetRole(ctx, tx, ids(), auth.Member)
				return err
			}, func(err error) bool { return errors.Is(err, auth.ErrNotFound) }},
			{"a made-up role", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.SetRole(ctx, tx, ada.ID, "ROOT")
				return err
			}, func(err error) bool { return errors.As(err, &field) && field.Field == "role" }},
			{"removing a stranger", func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, ids()) },
				func(err error) bool { return errors.Is(err, auth.ErrNotFound) }},
			{"removing what is no id", func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, "ada") },
				func(err error) bool { return errors.Is(err, auth.ErrNotFound) }},
			{"removing the last owner", func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, ada.ID) },
				func(err error) bool { return errors.Is(err, auth.ErrLastOwner) }},
			{"a lower role for the last owner", func(ctx context.Context, tx *db.Tx) error {
				_, err := w.s.SetRole(ctx, tx, ada.ID, auth.Admin)
				return err
			}, func(err error) bool { return errors.Is(err, auth.ErrLastOwner) }},
		} {
			if err := w.in(t, w.Workspace, c.do); !c.is(err) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.s.SetRole(ctx, tx, ada.ID, auth.Owner)
			return err
		}); err != nil {
			t.Errorf("the last owner stays one: %v", err)
		}
	})
}

// Two owners remove each other at the same time: one of them remains.
func TestAnOwnerRemains(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for range 10 {
			ws := dbtest.NewWorkspace(t, w.DB)
			a, b := w.join(t, ws, address("a"), auth.Owner), w.join(t, ws, address("b"), auth.Owner)
			var wg sync.WaitGroup
			var errs [2]error
			wg.Go(func() {
				errs[0] = w.in(t, ws, func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, a.ID) })
			})
			wg.Go(func() {
				errs[1] = w.in(t, ws, func(ctx context.Context, tx *db.Tx) error {
					_, err := w.s.SetRole(ctx, tx, b.ID, auth.Member)
					return err
				})
			})
			wg.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[0], errs[1]), auth.ErrLastOwner) {
				t.Fatalf("%v and %v leave %q", errs[0], errs[1], w.members(t, ws))
			}
		}
	})
}

func TestADisabledOwnerIsNone(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite)) // here the application may disable people
	a, b := w.join(t, w.Workspace, address("a"), auth.Owner), w.join(t, w.Workspace, address("b"), auth.Owner)
	if _, err := w.DB.Exec(t.Context(), "", w.q.Disable, b.ID); err != nil {
		t.Fatal(err)
	}
	err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, a.ID) })
	if !errors.Is(err, auth.ErrLastOwner) {
		t.Error(err)
	}
}

func TestTheFirstOwnerIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ada := address("ada")
		for i, email := range []string{ada, ada, address("bob")} {
			err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				made, err := w.s.FirstOwner(ctx, tx, email, admin)
				if made != (i == 0) {
					t.Errorf("%d: made %v", i, made)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := w.members(t, w.Workspace); !slices.Equal(got, []string{ada + " OWNER"}) {
			t.Errorf("there are %q", got)
		}
	})
}

// A workspace can't see or change members, people or keys of another. A member of both is one
// person.
func TestWorkspacesKeepToThemselves(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		theirs := dbtest.NewWorkspace(t, w.DB)
		both := address("both")
		here, there := w.join(t, w.Workspace, both, auth.Member), w.join(t, theirs, both, auth.Owner)
		alone := w.join(t, theirs, address("alone"), auth.Owner)
		key, _ := w.key(t, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
		if here.ID != there.ID {
			t.Error("one person has two ids")
		}
		if got := w.members(t, w.Workspace); !slices.Equal(got, []string{both + " MEMBER"}) {
			t.Errorf("seen are %q", got)
		}
		if err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error { return w.s.RemoveMember(ctx, tx, alone.ID) }); !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("removing theirs: %v", err)
		}
		if err := w.in(t, theirs, func(ctx context.Context, tx *db.Tx) error { _, err := w.s.RevokeKey(ctx, tx, key.ID); return err }); !errors.Is(err, auth.ErrNotFound) {
			t.Errorf("revoking ours: %v", err)
		}
		if keys, err := w.s.Keys(t.Context(), theirs, "", "", 10); err != nil || len(keys) != 0 {
			t.Errorf("they see %+v, %v", keys, err)
		}
		if w.Engine == dbtest.OnSQLite {
			return // the rest tests row-level security
		}
		for ws, want := range map[db.Workspace][]string{w.Workspace: {both}, theirs: {alone.Email, both}, "": nil} {
			var seen []string
			err := w.DB.Each(t.Context(), ws, func(scan db.Scan) error {
				seen = append(seen, "")
				return scan(&seen[len(seen)-1])
			}, w.q.SeenUsers)
			if err != nil || !slices.Equal(seen, want) {
				t.Errorf("from %q are seen %q (%v), want %q", ws, seen, err, want)
			}
		}
		for _, q := range []db.Query{w.q.Disable, w.q.DeleteUser} {
			if _, err := w.DB.Exec(t.Context(), w.Workspace, q, here.ID); err == nil {
				t.Errorf("%s is not refused", q.Name())
			}
		}
	})
}

// A person who has done something is not deleted, because the records stay.
func TestAMemberIsNotDeleted(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite)) // on Postgres the application may not even try
	p := w.join(t, w.Workspace, address("ada"), auth.Owner)
	if _, err := w.DB.Exec(t.Context(), "", w.q.DeleteUser, p.ID); err == nil {
		t.Error("a member can be deleted")
	}
	if got := w.members(t, w.Workspace); len(got) != 1 {
		t.Errorf("left are %q", got)
	}
}

func TestKeys(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first, clear := w.key(t, auth.APIKey{Name: " CI ", Kind: auth.APIKind, Role: auth.Admin, Scopes: []auth.Scope{"tasks:write"}})
		if first.Name != "CI" || first.CreatedBy != "local:admin" || first.LastUsedAt != nil || !strings.HasPrefix(clear.Reveal(), first.Prefix) || len(first.Prefix) != 9 {
			t.Errorf("made %+v", first)
		}
		second, site := w.key(t, auth.APIKey{Name: "site", Kind: auth.SiteKind, Origins: []string{"https://example.com"}, Persona: "shop_helper"})

		var hashes [][]byte
		if err := w.DB.Each(t.Context(), w.Workspace, func(scan db.Scan) error {
			var h []byte
			err := scan(&h)
			hashes = append(hashes, h)
			return err
		}, w.q.KeyHashes); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(clear.Reveal(), "lk_"))
		if err != nil {
			t.Fatal(err)
		}
		if hash := sha256.Sum256(raw[:32]); !slices.ContainsFunc(hashes, func(h []byte) bool { return string(h) == string(hash[:]) }) {
			t.Error("what is stored is not the hash of the secret")
		}

		p, err := w.s.VerifyKey(t.Context(), clear.Reveal())
		if err != nil || p.Workspace != w.Workspace || p.Kind != auth.Key || p.ID != first.ID || p.Role != auth.Admin || !slices.Equal(p.Scopes, first.Scopes) {
			t.Errorf("%+v, %v", p, err)
		}
		p, err = w.s.VerifyKey(t.Context(), site.Reveal())
		if err != nil || p.Kind != auth.Site || p.ID != second.ID || p.Role != "" || len(p.Scopes) > 0 || !slices.Equal(p.Origins, second.Origins) || p.Persona != "shop_helper" || second.Persona != p.Persona {
			t.Errorf("%+v, %v", p, err)
		}
		keys, err := w.s.Keys(t.Context(), w.Workspace, "", "", 10)
		if err != nil || len(keys) != 2 || keys[0].ID != second.ID || keys[1].ID != first.ID {
			t.Fatalf("there are %+v, %v", keys, err)
		}
		if rest, err := w.s.Keys(t.Context(), w.Workspace, "", second.ID, 10); err != nil || len(rest) != 1 || rest[0].ID != first.ID {
			t.Errorf("the second page: %+v, %v", rest, err)
		}

		if sites, err := w.s.Keys(t.Context(), w.Workspace, auth.SiteKind, "", 10); err != nil || len(sites) != 1 || sites[0].ID != second.ID {
			t.Errorf("the keys of sites: %+v, %v", sites, err)
		}

		for range 2 { // a second revocation keeps the time of the first
			w.Skew.Advance(time.Minute)
			var revoked auth.APIKey
			err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) (err error) {
				revoked, err = w.s.RevokeKey(ctx, tx, first.ID)
				return err
			})
			if err != nil || revoked.RevokedAt == nil || revoked.RevokedAt.Sub(first.CreatedAt) > 100*time.Second {
				t.Errorf("%+v, %v", revoked, err)
			}
			if _, err := w.s.VerifyKey(t.Context(), clear.Reveal()); !errors.Is(err, auth.ErrInvalid) {
				t.Errorf("revoked: %v", err)
			}
		}
	})
}

func TestAKeyExpires(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		end := time.Now().Add(time.Hour)
		_, clear := w.key(t, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}, ExpiresAt: &end})
		if _, err := w.s.VerifyKey(t.Context(), clear.Reveal()); err != nil {
			t.Errorf("before its end: %v", err)
		}
		w.Skew.Advance(61 * time.Minute)
		if _, err := w.s.VerifyKey(t.Context(), clear.Reveal()); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// The use of a key is recorded once an hour. Other uses only read.
func TestTheUseOfAKeyIsNotedOnceAnHour(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		_, clear := w.key(t, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
		var noted []time.Time
		for _, statements := range []int64{2, 1, 1, 2, 1} {
			before := w.DB.Stats()
			if _, err := w.s.VerifyKey(t.Context(), clear.Reveal()); err != nil {
				t.Fatal(err)
			}
			if got := w.DB.Stats().Sub(before).Statements; got != statements {
				t.Errorf("%d statements, want %d", got, statements)
			}
			keys, err := w.s.Keys(t.Context(), w.Workspace, "", "", 1)
			if err != nil || keys[0].LastUsedAt == nil {
				t.Fatalf("%+v, %v", keys, err)
			}
			noted = append(noted, *keys[0].LastUsedAt)
			w.Skew.Advance(25 * time.Minute)
		}
		if !noted[0].Equal(noted[2]) || !noted[3].After(noted[2]) || !noted[3].Equal(noted[4]) {
			t.Errorf("noted %v", noted)
		}
	})
}

func TestKeysAreRefused(t *testing.T) {
	w := newWorld(t, dbtest.New(t, dbtest.OnSQLite))
	past := time.Now().Add(-time.Hour)
	adminOf := auth.Principal{Kind: auth.User, ID: ids(), Role: auth.Admin}
	for _, c := range []struct {
		name  string
		by    auth.Principal
		key   auth.APIKey
		field string // "": ErrForbidden
	}{
		{"no name", admin, auth.APIKey{Name: " ", Kind: auth.SiteKind}, "name"},
		{"a long name", admin, auth.APIKey{Name: strings.Repeat("x", 201), Kind: auth.SiteKind}, "name"},
		{"a name that can't be kept", admin, auth.APIKey{Name: "a\x00", Kind: auth.SiteKind}, "name"},
		{"no kind", admin, auth.APIKey{Name: "k"}, "kind"},
		{"no role", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Scopes: []auth.Scope{"*"}}, "role"},
		{"a role above one's own", adminOf, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Owner, Scopes: []auth.Scope{"*"}}, "role"},
		{"no scopes", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member}, "scopes"},
		{"a bad scope", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"tasks"}}, "scopes"},
		{"many scopes", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: slices.Repeat([]auth.Scope{"*"}, 21)}, "scopes"},
		{"an API key with origins", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}, Origins: []string{"https://a.example"}}, "origins"},
		{"an API key with a persona", admin, auth.APIKey{Name: "k", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}, Persona: "visitor_chat"}, "persona"},
		{"a site key with a role", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Role: auth.Member}, "role"},
		{"a site key with scopes", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Scopes: []auth.Scope{"*"}}, "scopes"},
		{"an origin with a path", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://a.example/"}}, "origins"},
		{"an origin with its port", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://a.example:443"}}, "origins"},
		{"an origin in capitals", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://A.example"}}, "origins"},
		{"the null origin", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"null"}}, "origins"},
		{"an origin that stands for many", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://*.a.example"}}, "origins"},
		{"an end that is over", admin, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}, ExpiresAt: &past}, "expiresAt"},
		{"by a key", auth.Principal{Kind: auth.Key, Role: auth.Owner, Scopes: []auth.Scope{"*"}}, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}}, ""},
		{"by an agent", auth.Principal{Kind: auth.Agent}, auth.APIKey{Name: "k", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}}, ""},
	} {
		err := w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.s.CreateKey(ctx, tx, c.by, c.key)
			return err
		})
		field, _ := errors.AsType[*auth.FieldError](err)
		if c.field == "" && !errors.Is(err, auth.ErrForbidden) || c.field != "" && (field == nil || field.Field != c.field) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Only the given fields of a site key change; a key of a program is not changed.
func TestASiteKeyIsChanged(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		made, clear := w.key(t, auth.APIKey{Name: "shop", Kind: auth.SiteKind, Origins: []string{"https://shop.example"}})
		edit := func(id string, e auth.SiteKeyEdits) (k auth.APIKey, err error) {
			err = w.in(t, w.Workspace, func(ctx context.Context, tx *db.Tx) error {
				k, err = w.s.EditSiteKey(ctx, tx, id, e)
				return err
			})
			return k, err
		}
		name, persona, origins := " The shop ", "shop_helper", []string{"https://www.shop.example", "http://localhost:3000"}
		want := made
		want.Name = "The shop"
		if k, err := edit(made.ID, auth.SiteKeyEdits{Name: &name}); err != nil || !reflect.DeepEqual(k, want) {
			t.Errorf("%+v, %v", k, err)
		}
		want.Origins, want.Persona = origins, persona
		if k, err := edit(made.ID, auth.SiteKeyEdits{Origins: &origins, Persona: &persona}); err != nil || !reflect.DeepEqual(k, want) {
			t.Errorf("%+v, %v", k, err)
		}
		if p, err := w.s.VerifyKey(t.Context(), clear.Reveal()); err != nil || p.Persona != persona || !slices.Equal(p.Origins, origins) {
			t.Errorf("it opens for %+v, %v", p, err)
		}
		long, wrong := strings.Repeat("x", 201), []string{"https://shop.example/"}
		if f, ok := errors.AsType[*auth.FieldError](second(edit(made.ID, auth.SiteKeyEdits{Name: &long}))); !ok || f.Field != "name" {
			t.Errorf("a long name: %v", f)
		}
		if f, ok := errors.AsType[*auth.FieldError](second(edit(made.ID, auth.SiteKeyEdits{Origins: &wrong}))); !ok || f.Field != "origins" {
			t.Errorf("an origin with a path: %v", f)
		}
		program, _ := w.key(t, auth.APIKey{Name: "ci", Kind: auth.APIKind, Role: auth.Member, Scopes: []auth.Scope{"*"}})
		for _, id := range []string{program.ID, ids(), "x"} {
			if _, err := edit(id, auth.SiteKeyEdits{Name: &name}); !errors.Is(err, auth.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
