package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
)

// TokenConfig says which tokens people use. Exactly one of Secret and Keys is set. It decides the
// algorithms; a token never does.
type TokenConfig struct {
	Secret   string  // of HS256, 32 bytes or more
	Keys     *KeySet // of an issuer, for RS256 and ES256
	Issuer   string  // required value of iss; mandatory with Keys, because a subject belongs to its issuer
	Audience string  // required member of aud
	// MaxLife is the longest remaining life of a token. Zero means 30 days.
	MaxLife time.Duration
}

// UserTokens returns the verifier of people's tokens. With Keys, the issuer's subject identifies
// the person. At the first visit, an e-mail address that the issuer has verified identifies the
// person. With Secret, the subject is the id of a user, or the token has a verified e-mail address.
func (s *Store) UserTokens(c TokenConfig, clock func() time.Time) (Verifier, error) {
	switch {
	case (c.Secret == "") == (c.Keys == nil):
		return nil, errors.New("user tokens: either a secret or an issuer's keys verify them")
	case c.Keys == nil && len(c.Secret) < minKey:
		return nil, fmt.Errorf("user tokens: %w", errShortKey)
	case c.Keys != nil && c.Issuer == "":
		return nil, errors.New("user tokens: with an issuer's keys goes the issuer's name")
	}
	v := &userTokens{c, s, clock}
	return v.verify, nil
}

type userTokens struct {
	TokenConfig
	store *Store
	clock func() time.Time
}

// maxTokenLife is the default of [TokenConfig.MaxLife].
const maxTokenLife = 30 * 24 * time.Hour

// userTypes lists the allowed types of a person's token. The type may be missing.
var userTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

func (v *userTokens) verify(ctx context.Context, token string) (Principal, error) {
	t, err := parseJWS(token)
	if err != nil || !slices.Contains(userTypes, t.typ) {
		return Principal{}, ErrInvalid
	}
	issuer, err := t.claims.name("iss")
	if err != nil || v.Issuer != "" && issuer != v.Issuer {
		return Principal{}, ErrInvalid
	}
	subject, err := t.claims.name("sub")
	if err != nil || subject == "" {
		return Principal{}, ErrInvalid
	}
	longest := cmp.Or(v.MaxLife, maxTokenLife)
	if err := errors.Join(t.claims.timely(v.clock(), leeway), t.claims.within(v.clock().Add(longest+leeway)),
		t.claims.addressed(v.Audience)); err != nil {
		return Principal{}, ErrInvalid
	}
	if v.Keys == nil {
		err = t.verify(jose.HS256, []byte(v.Secret))
	} else {
		err = v.Keys.verify(ctx, t)
	}
	if err != nil {
		return Principal{}, err
	}
	return v.person(ctx, issuer, subject, t.claims.email())
}

// person returns the person that a valid token identifies.
func (v *userTokens) person(ctx context.Context, issuer, subject, email string) (Principal, error) {
	names := []who{{issuer: issuer, subject: subject}}
	if v.Keys == nil {
		names = nil
		if id, err := uuid.Parse(subject); err == nil && id.String() == subject { // only the canonical spelling
			names = append(names, who{id: id.String()})
		}
		if email != "" {
			names = append(names, who{email: email})
		}
	}
	for _, name := range names {
		p, _, err := v.store.person(ctx, name)
		if !errors.Is(err, ErrForbidden) {
			return p, err
		}
	}
	if v.Keys == nil || email == "" {
		return Principal{}, ErrForbidden
	}
	return v.store.bind(ctx, who{issuer: issuer, subject: subject, email: email})
}

// email returns the e-mail address that the issuer has verified, or "".
func (m members) email() string {
	if string(m["email_verified"]) != "true" {
		return ""
	}
	text, err := m.text("email")
	if err != nil {
		return ""
	}
	address, err := Email(text)
	if err != nil {
		return ""
	}
	return address
}

// Email returns an e-mail address in the form that is stored: in lower case. It must be ASCII,
// because lower case is unambiguous there in every language. Otherwise the error is a [FieldError].
func Email(text string) (string, error) {
	local, domain, _ := strings.Cut(text, "@")
	if local == "" || domain == "" || len(text) > 254 || !usable(text) || strings.ContainsAny(text, `<>()[],;:\"`) ||
		strings.Contains(domain, "@") {
		return "", &FieldError{"email", "is no e-mail address"}
	}
	return strings.ToLower(text), nil
}

// A FieldError says what is wrong with one field. It never contains the field's value.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }
