package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Keys are the keys that agents' tokens are signed with, one a workspace: 32 random
// bytes, kept among its secrets.
type Keys interface {
	// AgentKey answers [ErrInvalid] where the workspace has none: it is asked for
	// whatever workspace an unverified token names, and must not make one.
	AgentKey(ctx context.Context, ws db.Workspace) ([]byte, error)
}

// Agents tell which of an agent's tokens is good.
type Agents interface {
	// Generation counts the tokens that an agent has had. It answers [ErrInvalid]
	// where there is no such agent, or it is terminated.
	Generation(ctx context.Context, ws db.Workspace, agentID string) (int, error)
}

const (
	agentType = "lk-agent+jwt"
	// AgentTokenLife is how long an agent's token lasts, unless it is replaced.
	AgentTokenLife = 90 * 24 * time.Hour
)

// agentClaims are what an agent's token says.
type agentClaims struct {
	Subject    string       `json:"sub"`
	Workspace  db.Workspace `json:"ws"`
	Generation int          `json:"gen"`
	Issued     int64        `json:"iat"`
	Expires    int64        `json:"exp"`
}

// AgentTokens makes and verifies the tokens of agents. It is safe for concurrent use.
type AgentTokens struct {
	Keys   Keys
	Agents Agents
	Clock  func() time.Time
}

// Mint makes a token of a generation of an agent, both of them ids as the database
// has them.
func (a AgentTokens) Mint(ctx context.Context, ws db.Workspace, agentID string, generation int) (secret.Value, error) {
	key, err := a.Keys.AgentKey(ctx, ws)
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the key of the agents' tokens: %w", err)
	}
	now := a.Clock()
	return sign(key, agentType, agentClaims{agentID, ws, generation, now.Unix(), now.Add(AgentTokenLife).Unix()})
}

// Verify is a [Verifier].
func (a AgentTokens) Verify(ctx context.Context, token string) (Principal, error) {
	t, err := parseJWS(token)
	if err != nil || t.typ != agentType || t.alg != jose.HS256 || t.claims.timely(a.Clock(), leeway) != nil {
		return Principal{}, ErrInvalid
	}
	workspace, err1 := t.claims.id("ws")
	agent, err2 := t.claims.id("sub")
	generation, there, err3 := t.claims.number("gen")
	if err1 != nil || err2 != nil || err3 != nil || !there {
		return Principal{}, ErrInvalid
	}
	ws := db.Workspace(workspace)
	key, err := a.Keys.AgentKey(ctx, ws)
	if err != nil {
		return Principal{}, fmt.Errorf("read the key of the agents' tokens: %w", err)
	}
	if len(key) < minKey {
		return Principal{}, errShortKey
	}
	if err := t.verify(jose.HS256, key); err != nil {
		return Principal{}, err
	}
	present, err := a.Agents.Generation(ctx, ws, agent)
	switch {
	case err != nil:
		return Principal{}, fmt.Errorf("look up an agent: %w", err)
	case int64(present) != generation:
		return Principal{}, ErrInvalid
	}
	return Principal{Workspace: ws, Kind: Agent, ID: agent}, nil
}

// id is a claim that is a UUID as the database writes it.
func (m members) id(name string) (string, error) {
	text, err := m.text(name)
	if err != nil {
		return "", err
	}
	id, err := uuid.Parse(text)
	if err != nil || id.String() != text {
		return "", ErrInvalid
	}
	return text, nil
}
