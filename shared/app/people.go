package app

import (
	"crypto/rand"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/live"
)

// Door is who may come in: whose tokens, keys and sessions are known, and how often
// they may ask.
type Door struct {
	Auth     *auth.Authenticator
	People   *auth.Store
	Sessions *auth.Sessions
	Limits   *live.Local
	Events   *live.Events
}

// Door knows those whom the configuration tells, the keys that were made here, and
// who else the verifiers know. Sessions end early when master changes.
func (a *Agent) Door(master string, secure bool, others ...auth.Verifier) (*Door, error) {
	core := a.core
	people, err := auth.NewStore(core.DB, core.IDs, rand.Reader)
	if err != nil {
		return nil, err
	}
	verifiers := append(others, people.VerifyKey)
	cfg := core.Config
	tokens := auth.TokenConfig{Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience}
	if cfg.JWTSecret != "" {
		shared := tokens
		shared.Secret = cfg.JWTSecret
		verify, err := people.UserTokens(shared, core.Clock)
		if err != nil {
			return nil, fmt.Errorf("JWT_SECRET: %w", err)
		}
		verifiers = append(verifiers, verify)
	}
	if cfg.JWKSURL != "" {
		issued := tokens
		issued.Keys = auth.NewKeySet(cfg.JWKSURL, a.Outbound.HTTPClient(), core.Clock)
		verify, err := people.UserTokens(issued, core.Clock)
		if err != nil {
			return nil, fmt.Errorf("JWKS_URL: %w", err)
		}
		verifiers = append(verifiers, verify)
	}
	sessions, err := people.NewSessions(master+cfg.JWTSecret, secure, core.Clock)
	if err != nil {
		return nil, err
	}
	limiter, err := live.NewLimiter(core.DB)
	if err != nil {
		return nil, err
	}
	return &Door{
		Auth: auth.New(verifiers...).WithSessions(sessions), People: people, Sessions: sessions,
		Limits: live.NewLocal(limiter, core.Clock, core.Log), Events: a.Events,
	}, nil
}
