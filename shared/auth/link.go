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
	// LinkLife is how long a sign-in link is valid.
	LinkLife = 10 * time.Minute
)

// linkClaims are the claims of a sign-in link.
type linkClaims struct {
	Subject string `json:"sub"`
	SignIns int64  `json:"gen"`
	Expires int64  `json:"exp"`
}

// MintLink creates the token of a link that signs a person in, once, within [LinkLife]. It returns
// [ErrForbidden] if nobody has that e-mail address.
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

// RedeemLink uses a link's token, which also invalidates all other links of the person. It returns
// the principal to start a session for. A link that is not valid, or was used, returns
// [ErrInvalid].
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
