// Package door builds the authentication and the rate limits of the API and the chat. It does not link the
// API, so that the chat's function starts fast.
package door

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/ratelimit"
	"github.com/lanekeeper/lanekeeper/shared/secret"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// Door holds whose tokens, keys and sessions are accepted, and how often their owners may send
// requests.
type Door struct {
	Auth     *auth.Authenticator
	People   *auth.Store
	Sessions *auth.Sessions
	Agents   *auth.AgentTokens
	Limits   *ratelimit.Cache
	Failures *ratelimit.Failures
}

// New returns a door that accepts the people of the configured issuers, the keys in the database, the
// tokens of agents, and the tokens that the other verifiers accept. adminToken is the admin token of the
// installation; without one the local admin has no sessions. secure says that the pages are served over https.
func New(s *wire.Surfaces, adminToken string, secure bool, others ...auth.Verifier) (*Door, error) {
	core := s.Core
	people, err := auth.NewStore(core.DB, core.IDs, rand.Reader)
	if err != nil {
		return nil, err
	}
	key := func(ctx context.Context) ([]byte, error) { return masterKey(ctx, s) }
	agents := &auth.AgentTokens{Keys: &auth.DerivedKeys{Master: key}, Agents: s.Agents, Clock: core.Clock}
	verifiers := append(others, people.VerifyKey, agents.Verify)
	cfg := core.Config
	tokens := auth.TokenConfig{Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience, MaxLife: cfg.JWTMaxLife}
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
		issued.Keys = auth.NewKeySet(cfg.JWKSURL, s.Outbound.HTTPClient(), core.Clock)
		verify, err := people.UserTokens(issued, core.Clock)
		if err != nil {
			return nil, fmt.Errorf("JWKS_URL: %w", err)
		}
		verifiers = append(verifiers, verify)
	}
	sessions, err := people.NewSessions(auth.SessionConfig{
		Key: key, AdminToken: adminToken, Secure: secure, Clock: core.Clock,
	})
	if err != nil {
		return nil, err
	}
	limiter, err := ratelimit.New(core.DB)
	if err != nil {
		return nil, err
	}
	return &Door{
		Auth: auth.New(verifiers...).WithSessions(sessions), People: people, Sessions: sessions, Agents: agents,
		Limits: ratelimit.NewCache(limiter, core.Clock, core.Log), Failures: ratelimit.NewFailures(ratelimit.BadCredentials, core.Clock),
	}, nil
}

// OfFunction returns the door of a function on Lambda. It also accepts the configured admin token.
func OfFunction(s *wire.Surfaces) (*Door, error) {
	token := s.Core.Config.AdminToken
	if token == "" {
		return New(s, "", true)
	}
	admin, err := auth.AdminToken(token)
	if err != nil {
		return nil, err
	}
	return New(s, token, true, admin)
}

// masterKey returns the key that signs sessions and the tokens of agents. It is random, made when it is first
// needed, and stored sealed in the default workspace. On Lambda without a key of KMS nothing can be sealed.
// There the key is derived from the secrets with which people sign in; without any, there are no sessions. A
// command that has the database and the secrets of such functions in its environment derives the same key.
func masterKey(ctx context.Context, s *wire.Surfaces) ([]byte, error) {
	cfg := s.Core.Config
	derived := cfg.KMSKeyID == "" && (cfg.OnLambda() || cfg.OnPostgres() && cfg.AdminToken+cfg.JWTSecret != "")
	if !derived {
		return s.Secrets.Key(ctx, workspace.Default, "session")
	}
	if cfg.AdminToken == "" && cfg.JWTSecret == "" {
		return nil, fmt.Errorf("KMS_KEY_ID is missing: %w: %w", auth.ErrNoSessions, secret.ErrNoKey)
	}
	return hkdf.Key(sha256.New, []byte(cfg.AdminToken), []byte(cfg.JWTSecret), "lanekeeper sessions", sha256.Size)
}
