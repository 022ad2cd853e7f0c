package auth

import (
	"context"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/secret"
)

// SpellKey formats a key as its owner sees it.
func SpellKey(k KeyKind, random []byte) string { return spellKey(k, random) }

// Parse parses a token without verifying its signature.
func Parse(token string) error {
	_, err := parseJWS(token)
	return err
}

// ReadKey reports whether a key is spelled correctly.
func ReadKey(key string) bool {
	_, _, ok := readKey(key)
	return ok
}

// Mint creates the token of a generation of an agent.
func (a AgentTokens) Mint(ctx context.Context, ws db.Workspace, agentID string, generation int) (secret.Value, error) {
	mint, err := a.Minter(ctx, ws)
	if err != nil {
		return secret.Value{}, err
	}
	return mint(agentID, generation)
}
