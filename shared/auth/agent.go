package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// Keys returns the keys that sign agents' tokens. Each workspace has its own.
type Keys interface {
	// AgentKey must store nothing for the workspace, because it is called for any workspace that an
	// unverified token names.
	AgentKey(ctx context.Context, ws db.Workspace) ([]byte, error)
}

// DerivedKeys are [Keys] that are derived from one master key. It is safe for concurrent use.
type DerivedKeys struct {
	// Master returns at least 32 random bytes, the same each time and in each process. It is called
	// when it is first needed.
	Master func(context.Context) ([]byte, error)

	master atomic.Pointer[[]byte]
}

// AgentKey implements [Keys].
func (k *DerivedKeys) AgentKey(ctx context.Context, ws db.Workspace) ([]byte, error) {
	master := k.master.Load()
	if master == nil {
		read, err := k.Master(ctx)
		if err != nil {
			return nil, err
		}
		if len(read) < minKey {
			return nil, errShortKey
		}
		master = &read
		k.master.Store(master)
	}
	return hkdf.Key(sha256.New, *master, []byte(ws), "lanekeeper "+agentType, minKey)
}

// Agents says which token of an agent is the valid one.
type Agents interface {
	// Generation returns how many tokens the agent has had. It returns [db.ErrNoRows] if there is no
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

// A Minter creates the token of a generation of an agent, whose id is in the database's spelling.
type Minter func(agentID string, generation int) (secret.Value, error)

// Minter reads the key of a workspace and returns its minter, which needs nothing more. So a caller
// knows before it changes an agent that it can create the agent's token.
func (a AgentTokens) Minter(ctx context.Context, ws db.Workspace) (Minter, error) {
	key, err := a.Keys.AgentKey(ctx, ws)
	if err != nil {
		return nil, fmt.Errorf("read the key of the agents' tokens: %w", err)
	}
	return func(agentID string, generation int) (secret.Value, error) {
		now := a.Clock()
		return sign(key, agentType, agentClaims{agentID, ws, generation, now.Unix(), now.Add(AgentTokenLife).Unix()})
	}, nil
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
	case errors.Is(err, db.ErrNoRows):
		return Principal{}, ErrInvalid
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
