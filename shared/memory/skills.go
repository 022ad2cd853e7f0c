package memory

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.md
var texts embed.FS

// Skills returns the built-in skills on memories. Their scope is internal, because all visitors of a
// chat share the memories of its agent: one visitor would read what another has said. An admin may
// widen it.
func Skills(s *Store) ([]skill.Skill, error) {
	save, err := skill.Define(texts, "save_memory", skill.Skill{
		Lanes: func(c skill.Call) []lane.Name { return []lane.Name{lane.Memory(c.Agent)} },
		Run: func(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
			args := struct {
				Category   string `json:"category"`
				Content    string `json:"content"`
				Importance int    `json:"importance"`
				Days       int    `json:"days"`
			}{Importance: 5}
			if err := json.Unmarshal(c.Arguments, &args); err != nil {
				return nil, skill.Refuse("the arguments could not be read")
			}
			m := Memory{Agent: c.Agent, Category: args.Category, Content: args.Content, Importance: args.Importance}
			m.Trace, _ = trace.From(ctx)
			id, isNew, err := s.Save(ctx, tx, m, time.Duration(args.Days)*24*time.Hour)
			if err != nil {
				return nil, err
			}
			return map[string]any{"memoryId": id, "new": isNew}, nil
		},
		Undo: s.unsave,
	})
	search, err2 := skill.Define(texts, "search_memory", skill.Skill{Effect: skill.Read, Run: s.runSearch})
	forget, err3 := skill.Define(texts, "forget_memory", skill.Skill{
		Lanes: func(c skill.Call) []lane.Name { return []lane.Name{lane.Memory(c.Agent)} }, Run: s.runForget,
	})
	return []skill.Skill{save, search, forget}, errors.Join(err, err2, err3)
}

// unsave deletes a memory if the call created it and no later call saved it again.
func (s *Store) unsave(ctx context.Context, tx *db.Tx, _, result json.RawMessage) (bool, error) {
	var was struct {
		ID  string `json:"memoryId"`
		New bool   `json:"new"`
	}
	if json.Unmarshal(result, &was) != nil || !was.New {
		return false, nil //nolint:nilerr // what can't be read is not taken back
	}
	n, err := tx.Exec(ctx, s.q.Unsave, was.ID)
	if err != nil {
		return false, fmt.Errorf("take back memory %s: %w", was.ID, err)
	}
	return n > 0, nil
}

// runSearch returns memories as untrusted text: an execution that had read untrusted text may have
// written them.
func (s *Store) runSearch(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	args := struct {
		Query    string `json:"q"`
		Category string `json:"category"`
		Limit    int    `json:"limit"`
	}{Limit: 10}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	found, err := s.Search(ctx, tx, c.Agent, args.Query, args.Category, args.Limit)
	if err != nil {
		return nil, err
	}
	type memory struct {
		ID         string    `json:"memoryId"`
		Category   string    `json:"category"`
		Content    string    `json:"content"`
		Importance int       `json:"importance"`
		At         time.Time `json:"at"`
	}
	out := struct {
		Memories []memory `json:"memories"`
	}{[]memory{}}
	for _, m := range found {
		out.Memories = append(out.Memories, memory{m.ID, m.Category, m.Content, m.Importance, m.CreatedAt})
	}
	if len(found) == 0 {
		return out, nil
	}
	return skill.Untrusted{Value: out}, nil
}

func (s *Store) runForget(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	var args struct {
		ID uuid.UUID `json:"memoryId"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	found, err := s.Forget(ctx, tx, c.Agent, args.ID.String())
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, skill.Refuse("there is no such memory")
	}
	return map[string]any{"forgotten": true}, nil
}
