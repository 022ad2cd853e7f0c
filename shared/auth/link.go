package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

const (
	linkType = "lk-link+jwt"
	// LinkLife is how long a sign-in link is good for.
	LinkLife = 10 * time.Minute
)

// linkClaims are what a sign-in link says.
type linkClaims struct {
	Subject string `json:"sub"`
	SignIns int64  `json:"gen"`
	Expires int64  `json:"exp"`
}

// MintLink makes the token of a link that signs a person in, once, within
// [LinkLife]. Nobody of that e-mail address is [ErrForbidden].
func (s *Sessions) MintLink(ctx context.Context, email string) (secret.Value, error) {
	email, err := Email(email)
	if err != nil {
		return secret.Value{}, err
	}
	p, signIns, err := s.store.person(ctx, who{email: email})
	if err != nil {
		return secret.Value{}, err
	}
	keys, err := s.derived(ctx)
	if err != nil {
		return secret.Value{}, err
	}
	return sign(keys.link, linkType, linkClaims{p.ID, signIns, s.Clock().Add(LinkLife).Unix()})
}

// RedeemLink uses up a link's token, and all others of its person, and answers whom
// to start a session for. What is no good link, or was used, is [ErrInvalid].
func (s *Sessions) RedeemLink(ctx context.Context, token string) (Principal, error) {
	t, err := parseJWS(token)
	if err != nil || t.typ != linkType {
		return Principal{}, ErrInvalid
	}
	keys, err := s.derived(ctx)
	if err != nil {
		return Principal{}, err
	}
	if t.verify(jose.HS256, keys.link) != nil || t.claims.timely(s.Clock(), 0) != nil {
		return Principal{}, ErrInvalid
	}
	var c linkClaims
	if err := t.read(&c); err != nil {
		return Principal{}, err
	}
	var used db.Batch
	id := ""
	used.Each(func(scan db.Scan) error { return scan(&id) }, s.store.q.SignIn, c.Subject, c.SignIns)
	if err := s.store.db.Do(ctx, "", &used); err != nil {
		return Principal{}, fmt.Errorf("use a sign-in link: %w", err)
	}
	if id == "" {
		return Principal{}, ErrInvalid
	}
	p, _, err := s.store.person(ctx, who{id: id})
	if err != nil {
		return Principal{}, err
	}
	if only, err := p.In(""); err == nil {
		p = only
	}
	return p, nil
}
