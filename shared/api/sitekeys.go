package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/persona"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// SiteKeyItem is the key of a web site's chat, without the key itself.
type SiteKeyItem struct {
	ID         string     `json:"id" format:"uuid"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix" doc:"How it begins"`
	Origins    []string   `json:"origins" doc:"The origins of the pages that may use it"`
	Persona    string     `json:"persona" doc:"The persona that its visitors talk with"`
	CreatedBy  string     `json:"createdBy"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	RevokedAt  *time.Time `json:"revokedAt,omitempty"`
}

// madeSiteKey also has the key itself, once.
type madeSiteKey struct {
	SiteKeyItem
	Key string `json:"key" doc:"The key itself, shown this once. It stands in the site's pages, where everyone can read it."`
}

func siteKeyOf(k auth.APIKey) SiteKeyItem {
	return SiteKeyItem{
		ID: k.ID, Name: k.Name, Prefix: k.Prefix, Origins: append([]string{}, k.Origins...), Persona: personaOfKey(k),
		CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt.UTC(), LastUsedAt: utc(k.LastUsedAt), RevokedAt: utc(k.RevokedAt),
	}
}

// personaOfKey is the persona of a site key; empty for keys of programs.
func personaOfKey(k auth.APIKey) string {
	if k.Kind == auth.SiteKind && k.Persona == "" {
		return persona.VisitorChat
	}
	return k.Persona
}

// listSiteKeys is called by GET /api/v1/site-keys.
func (s *server) listSiteKeys(ctx context.Context, in *struct {
	Cursor string `query:"cursor" maxLength:"500"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}) (*answer[page[SiteKeyItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.People.Keys(ctx, workspace(ctx), auth.SiteKind, before.ID, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return sorted(found, in.Limit, func(k auth.APIKey) string { return k.ID }, siteKeyOf), nil
}

// createSiteKey is called by POST /api/v1/site-keys.
func (s *server) createSiteKey(ctx context.Context, in *struct {
	Body struct {
		Name    string   `json:"name" minLength:"1" maxLength:"200"`
		Origins []string `json:"origins,omitempty" maxItems:"20" nullable:"false" doc:"The origins of the pages that may use it, such as https://example.com. Left out: any page may, of anybody"`
		Persona string   `json:"persona,omitempty" maxLength:"63" default:"visitor_chat" doc:"The persona that its visitors talk with; it must serve chat"`
	}
}) (*createdAt[madeSiteKey], error) {
	by, _ := auth.From(ctx)
	k := auth.APIKey{ID: s.newID(ctx), Name: in.Body.Name, Kind: auth.SiteKind, Origins: in.Body.Origins, Persona: in.Body.Persona}
	if err := s.servesChat(ctx, k.Persona); err != nil {
		return nil, err
	}
	var shown string
	err := s.change(ctx, "site_key.create", func(ctx context.Context, tx *db.Tx) error {
		made, key, err := s.People.CreateKey(ctx, tx, by, k)
		k, shown = made, key.Reveal()
		return err
	}, "id", &k.ID, "name", k.Name, "origins", k.Origins, "persona", k.Persona)
	if err := shownOnce(ctx, err, s.People.Key); err != nil {
		return nil, err
	}
	return &createdAt[madeSiteKey]{"/api/v1/site-keys/" + k.ID, siteKeyTag(k), madeSiteKey{siteKeyOf(k), shown}}, nil
}

// servesChat refuses a persona that does not exist or does not serve chat. Personas are never
// deleted, and their surfaces never change.
func (s *server) servesChat(ctx context.Context, name string) error {
	p, err := s.Personas.Get(ctx, workspace(ctx), name)
	if err != nil && !errors.Is(err, persona.ErrNotFound) {
		return err
	}
	if err != nil || !p.Serves(persona.Chat) {
		return invalid(problem.At("body.persona", "expected visitor_chat, or a persona of your own that serves chat"))
	}
	return nil
}

// siteKeyTag returns a site key's ETag. It covers what can be changed, because the key changes in other
// ways whenever it is used.
func siteKeyTag(k auth.APIKey) string {
	sum := sha256.Sum256(object("name", k.Name, "origins", append([]string{}, k.Origins...), "persona", personaOfKey(k), "revoked", k.RevokedAt != nil))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

func siteKeyOutput(k auth.APIKey) *versioned[SiteKeyItem] {
	return &versioned[SiteKeyItem]{ETag: siteKeyTag(k), Body: siteKeyOf(k)}
}

// siteKey reads a site key. Keys of programs are not found.
func (s *server) siteKey(ctx context.Context, in *IDPath) (auth.APIKey, error) {
	k, err := s.People.Key(ctx, workspace(ctx), in.ID)
	if err == nil && k.Kind != auth.SiteKind {
		err = auth.ErrNotFound
	}
	return k, err
}

// getSiteKey is called by GET /api/v1/site-keys/{id}.
func (s *server) getSiteKey(ctx context.Context, in *IDPath) (*versioned[SiteKeyItem], error) {
	k, err := s.siteKey(ctx, in)
	if err != nil {
		return nil, err
	}
	return siteKeyOutput(k), nil
}

// patchSiteKey is called by PATCH /api/v1/site-keys/{id}.
func (s *server) patchSiteKey(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		Name    *string   `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Origins *[]string `json:"origins,omitempty" maxItems:"20" doc:"All of them: they replace those of before"`
		Persona *string   `json:"persona,omitempty" maxLength:"63"`
	}
}) (*versioned[SiteKeyItem], error) {
	if in.Body.Persona != nil {
		if err := s.servesChat(ctx, *in.Body.Persona); err != nil {
			return nil, err
		}
	}
	var k auth.APIKey
	err := s.change(ctx, "site_key.update", func(ctx context.Context, tx *db.Tx) (err error) {
		if in.IfMatch.IfMatch != "" { // without edits it only locks the row
			present, err := s.People.EditSiteKey(ctx, tx, in.ID, auth.SiteKeyEdits{})
			if err := cmp.Or(err, in.matchesTag(siteKeyTag(present))); err != nil {
				return err
			}
		}
		k, err = s.People.EditSiteKey(ctx, tx, in.ID, auth.SiteKeyEdits{Name: in.Body.Name, Origins: in.Body.Origins, Persona: in.Body.Persona})
		return err
	}, "id", in.ID, "name", &k.Name, "origins", &k.Origins, "persona", &k.Persona)
	if err != nil {
		return nil, err
	}
	return siteKeyOutput(k), nil
}

// revokeSiteKey is called by DELETE /api/v1/site-keys/{id}.
func (s *server) revokeSiteKey(ctx context.Context, in *IDPath) (*struct{}, error) {
	if _, err := s.siteKey(ctx, in); err != nil {
		return nil, err
	}
	return nil, s.change(ctx, "site_key.revoke", func(ctx context.Context, tx *db.Tx) error {
		_, err := s.People.RevokeKey(ctx, tx, in.ID)
		return err
	}, "id", in.ID)
}
