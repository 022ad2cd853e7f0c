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

// Keys returns the keys that sign agents' tokens. Each workspace has one key of 32 random bytes,
// stored among its secrets.
type Keys interface {
	// AgentKey returns [ErrInvalid] if the workspace has no key. It must not create one, because it
	// is called for any workspace that an unverified token names.
	AgentKey(ctx context.Context, ws db.Workspace) ([]byte, error)
}

// Agents says which token of an agent is the valid one.
type Agents interface {
	// Generation returns how many tokens the agent has had. It returns [ErrInvalid] if there is no
	// such agent, or if it is terminated.
	Generation(ctx context.Context, ws db.Workspace, agentID string) (int, error)
}

const (
	agentType = "lk-agent+jwt"
	// AgentTokenLife is how long an agent's token is valid, unless it is replaced earlier.
	AgentTokenLife = 90 * 24 * time.Hour
)

// agentClaims are the claims of an agent's token.
type agentClaims struct {
	Subject    string       `json:"sub"`
	Workspace  db.Workspace `json:"ws"`
	Generation int          `json:"gen"`
	Issued     int64        `json:"iat"`
	Expires    int64        `json:"exp"`
}

// AgentTokens creates and verifies the tokens of agents. It is safe for concurrent use.
type AgentTokens struct {
	Keys   Keys
	Agents Agents
	Clock  func() time.Time
}

// Mint creates the token of a generation of an agent. ws and agentID are ids in the database's
// spelling.
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

// id returns a claim that must be a UUID in the database's spelling.
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
