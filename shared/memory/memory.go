// Package memory keeps what agents remember: small statements with a category,
// an importance and, where wanted, an end.
package memory

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.sql
var files embed.FS

// Memory is one thing remembered.
type Memory struct {
	ID         string
	Agent      string
	Category   string
	Content    string
	Importance int // 1 to 10
	Trace      trace.ID
	ExpiresAt  *time.Time
	CreatedAt  time.Time
}

type queries struct{ Save, Newest, Relevant, Search, Forget db.Query }

// Store keeps the memories of all workspaces.
type Store struct {
	db  *db.DB
	q   queries
	ids func() string
}

// New makes a store.
func New(d *db.DB, ids func() string) (*Store, error) {
	s := &Store{db: d, ids: ids}
	if err := db.Load(files, &s.q); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return s, nil
}

// Save remembers m and answers its id, and whether it was new: the same content,
// case and spacing aside, is remembered once. The transaction must prove the lane
// of the agent's memory.
func (s *Store) Save(ctx context.Context, tx lane.Tx, m Memory) (id string, isNew bool, err error) {
	if err := tx.Proves(lane.Memory(m.Agent)); err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	fresh := s.ids()
	err = tx.One(ctx, []any{&id}, s.q.Save, fresh, m.Agent, m.Category, m.Content, hash(m.Content), m.Importance, db.Null(m.Trace), m.ExpiresAt)
	if err != nil {
		return "", false, fmt.Errorf("save memory: %w", err)
	}
	return id, id == fresh, nil
}

// Newest lists an agent's memories that have not expired, newest first.
func (s *Store) Newest(ctx context.Context, ws db.Workspace, agent string, limit int) ([]Memory, error) {
	var out []Memory
	if err := s.db.Each(ctx, ws, collect(&out), s.q.Newest, agent, limit); err != nil {
		return nil, fmt.Errorf("list memories: %w", err)
	}
	return out, nil
}

// Relevant adds the reading of an agent's most important memories that have not
// expired, the newest first among equals.
func (s *Store) Relevant(b *db.Batch, agent string, limit int) *[]Memory {
	found := new([]Memory)
	b.Each(collect(found), s.q.Relevant, agent, limit)
	return found
}

// Search lists an agent's memories that contain the words, case aside, and are of
// the category, where one is named; the newest first.
func (s *Store) Search(ctx context.Context, tx lane.Tx, agent, words, category string, limit int) ([]Memory, error) {
	var out []Memory
	pattern := "%" + wildcards.Replace(strings.ToLower(words)) + "%"
	if err := tx.Each(ctx, collect(&out), s.q.Search, agent, pattern, db.Null(category), limit); err != nil {
		return nil, fmt.Errorf("search memories: %w", err)
	}
	return out, nil
}

var wildcards = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Forget deletes a memory of the agent's and reports whether there was one. The
// transaction must prove the lane of the agent's memory.
func (s *Store) Forget(ctx context.Context, tx lane.Tx, agent, id string) (bool, error) {
	if err := tx.Proves(lane.Memory(agent)); err != nil {
		return false, fmt.Errorf("forget memory: %w", err)
	}
	n, err := tx.Exec(ctx, s.q.Forget, agent, id)
	if err != nil {
		return false, fmt.Errorf("forget memory: %w", err)
	}
	return n > 0, nil
}

func collect(into *[]Memory) func(db.Scan) error {
	return func(scan db.Scan) error {
		var m Memory
		var id *trace.ID
		if err := scan(&m.ID, &m.Agent, &m.Category, &m.Content, &m.Importance, &id, &m.ExpiresAt, &m.CreatedAt); err != nil {
			return err
		}
		if id != nil {
			m.Trace = *id
		}
		*into = append(*into, m)
		return nil
	}
}

// hash is of the content without its case and spacing.
func hash(content string) string {
	folded := strings.ToLower(strings.Join(strings.Fields(content), " "))
	sum := sha256.Sum256([]byte(folded))
	return hex.EncodeToString(sum[:])
}
