package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// APIKey is one row of the keys.
type APIKey struct {
	ID         string
	Name       string
	Kind       KeyKind
	Prefix     string // the beginning of the key
	Role       Role   // of an API key
	Scopes     []Scope
	Origins    []string // of a site key: those of the pages that may use it; an empty list allows any
	Persona    string   // of a site key: the persona that its visitors talk with; empty: visitor_chat
	CreatedBy  string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time // accurate to the hour
	RevokedAt  *time.Time
}

// maxList is the limit of scopes, and of origins, of a key.
const maxList = 20

// check validates a new key.
func (k *APIKey) check(by Principal) error {
	if err := checkKeyName(k.Name); err != nil {
		return err
	}
	if !problem.Storable(k.ExpiresAt) {
		return &FieldError{"expiresAt", problem.BadTime}
	}
	switch k.Kind {
	case APIKind:
		return k.checkAPI(by)
	case SiteKind:
		return k.checkSite()
	}
	return &FieldError{"kind", "is api or site"}
}

func checkKeyName(name string) error {
	if n := utf8.RuneCountInString(strings.TrimSpace(name)); n < 1 || n > 200 || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return &FieldError{"name", "has 1 to 200 characters"}
	}
	return nil
}

func (k *APIKey) checkAPI(by Principal) error {
	switch {
	case k.Role.rank() == 0:
		return &FieldError{"role", "is OWNER, ADMIN or MEMBER"}
	case !by.Role.AtLeast(k.Role):
		return &FieldError{"role", "is higher than your own"}
	case len(k.Scopes) == 0 || len(k.Scopes) > maxList || slices.ContainsFunc(k.Scopes,
		func(s Scope) bool { return !scopeShape().MatchString(string(s)) }):
		return &FieldError{"scopes", `are 1 to 20 such as "agent-tasks:read", "*:write" or "*"`}
	case len(k.Origins) > 0:
		return &FieldError{"origins", "are a site key's"}
	case k.Persona != "":
		return &FieldError{"persona", "is a site key's"}
	}
	return nil
}

func (k *APIKey) checkSite() error {
	switch {
	case k.Role != "":
		return &FieldError{"role", "is an API key's"}
	case len(k.Scopes) > 0:
		return &FieldError{"scopes", "are an API key's"}
	}
	return checkOrigins(k.Origins)
}

// checkOrigins refuses origins in another form than browsers send. An empty list is for any page.
func checkOrigins(origins []string) error {
	if len(origins) > maxList || slices.ContainsFunc(origins, func(o string) bool { return !isOrigin(o) }) {
		return &FieldError{"origins", "are at most 20 such as https://example.com, without a path and without *"}
	}
	return nil
}

// isOrigin reports whether a text is an origin in the form that browsers send.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= 255 && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) && !strings.Contains(text, "*") && usable(text) &&
		!(u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80")
}

// CreateKey creates a key with a name and a kind. An API key also has a role and scopes, a site key
// has origins and perhaps a persona, which the caller has checked. It may have an expiry. The clear key is returned this one time only. Only a person
// or the local admin may create keys, and none with a role above their own. Otherwise the error is
// [ErrForbidden] or a [FieldError].
func (s *Store) CreateKey(ctx context.Context, tx *db.Tx, by Principal, k APIKey) (APIKey, secret.Value, error) {
	if by.Kind != Local && by.Kind != User {
		return APIKey{}, secret.Value{}, ErrForbidden
	}
	if err := k.check(by); err != nil {
		return APIKey{}, secret.Value{}, err
	}
	random := make([]byte, secretSize)
	if _, err := io.ReadFull(s.random, random); err != nil {
		return APIKey{}, secret.Value{}, fmt.Errorf("create a key: %w", err)
	}
	text, hash := spellKey(k.Kind, random), sha256.Sum256(random)
	var created []APIKey
	err := tx.Each(ctx, collectKeys(&created), s.q.AddKey, cmp.Or(k.ID, s.ids()), strings.TrimSpace(k.Name), k.Kind, hash[:],
		text[:len(k.Kind.prefix())+shownSize], db.Null(k.Role), db.List(k.Scopes), db.List(k.Origins), db.Null(
			k.Persona), by.String(), k.ExpiresAt)
	switch {
	case errors.Is(err, db.ErrCheck): // all other fields have been checked
		return APIKey{}, secret.Value{}, &FieldError{"expiresAt", "is over"}
	case err != nil:
		return APIKey{}, secret.Value{}, fmt.Errorf("create a key: %w", err)
	}
	return created[0], secret.NewValue(text), nil
}

// Keys lists the keys of a kind in a workspace, including revoked ones, newest first; an empty kind
// is every kind. It returns at most limit keys, starting after the id after.
func (s *Store) Keys(ctx context.Context, ws db.Workspace, kind KeyKind, after string, limit int) ([]APIKey, error) {
	var out []APIKey
	if err := s.db.Each(ctx, ws, collectKeys(&out), s.q.Keys, cmp.Or(after, uuid.Max.String()), db.Null(kind), limit); err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return out, nil
}

// Key reads one key. Errors: [ErrNotFound].
func (s *Store) Key(ctx context.Context, ws db.Workspace, id string) (APIKey, error) {
	var found []APIKey
	err := s.db.Each(ctx, ws, collectKeys(&found), s.q.KeyByID, id)
	return db.Found(found, err, "read a key", ErrNotFound)
}

// SiteKeyEdits are the fields of a site key to change. A nil field is left as it is.
type SiteKeyEdits struct {
	Name    *string
	Origins *[]string
	Persona *string // the caller has checked it
}

// EditSiteKey changes the given fields of a site key and returns it. Errors: [ErrNotFound], a
// [FieldError].
func (s *Store) EditSiteKey(ctx context.Context, tx *db.Tx, id string, e SiteKeyEdits) (APIKey, error) {
	if uuid.Validate(id) != nil {
		return APIKey{}, ErrNotFound
	}
	var name, origins *string
	if e.Name != nil {
		if err := checkKeyName(*e.Name); err != nil {
			return APIKey{}, err
		}
		trimmed := strings.TrimSpace(*e.Name)
		name = &trimmed
	}
	if e.Origins != nil {
		if err := checkOrigins(*e.Origins); err != nil {
			return APIKey{}, err
		}
		list := db.List(*e.Origins)
		origins = &list
	}
	var edited []APIKey
	err := tx.Each(ctx, collectKeys(&edited), s.q.EditSiteKey, id, name, origins, e.Persona)
	return db.Found(edited, err, "change a site key", ErrNotFound)
}

// RevokeKey revokes a key permanently and returns it. A revoked key stays as it is. Errors:
// [ErrNotFound].
func (s *Store) RevokeKey(ctx context.Context, tx *db.Tx, id string) (APIKey, error) {
	if uuid.Validate(id) != nil {
		return APIKey{}, ErrNotFound
	}
	var revoked []APIKey
	err := tx.Each(ctx, collectKeys(&revoked), s.q.RevokeKey, id)
	return db.Found(revoked, err, "revoke a key", ErrNotFound)
}

func collectKeys(into *[]APIKey) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, k *APIKey) error {
		var scopes, origins json.RawMessage
		if err := scan(&k.ID, &k.Name, &k.Kind, &k.Prefix, db.Optional(&k.Role), &scopes, &origins, db.Optional(&k.Persona),
			&k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt); err != nil {
			return err
		}
		return readLists(scopes, &k.Scopes, origins, &k.Origins)
	})
}

func readLists(scopes json.RawMessage, intoScopes *[]Scope, origins json.RawMessage, intoOrigins *[]string) error {
	if err := json.Unmarshal(scopes, intoScopes); err != nil {
		return fmt.Errorf("read a key's scopes: %w", err)
	}
	if err := json.Unmarshal(origins, intoOrigins); err != nil {
		return fmt.Errorf("read a key's origins: %w", err)
	}
	return nil
}
