package automation

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

//go:embed *.md
var texts embed.FS

// Skills returns the built-in skills on automations.
func Skills(s *Store) ([]skill.Skill, error) {
	k, err := skill.Define(texts, "create_automation", skill.Skill{Admins: true, Run: s.runCreate, Undo: s.uncreate})
	return []skill.Skill{k}, err
}

func (s *Store) runCreate(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	var args struct {
		Name     string          `json:"name"`
		Skill    string          `json:"skill"`
		Input    json.RawMessage `json:"input"`
		Cron     string          `json:"cron"`
		TimeZone string          `json:"timeZone"`
		Event    string          `json:"event"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	if args.Input == nil {
		args.Input = json.RawMessage("{}")
	}
	if c.Offered != nil { // outside of an execution there is no list of skills: the first run checks the input
		runs, ok := c.Offered.Find(args.Skill)
		if !ok || runs.Name != args.Skill {
			return nil, skill.Refuse("there is no skill of that name")
		}
		if violations := runs.Check(ctx, args.Input); len(violations) > 0 {
			return nil, skill.Refuse("the input does not fit the skill: %s", violations[0])
		}
	}
	a, err := s.Create(ctx, tx, Automation{
		Name: args.Name, Skill: args.Skill, Input: args.Input, Cron: args.Cron, TimeZone: args.TimeZone, Event: args.Event,
		Enabled: true, CreatedBy: cmp.Or(c.By, c.Agent), Untrusted: c.Untrusted,
	})
	if _, wrong := errors.AsType[*problem.InvalidError](err); wrong || errors.Is(err, ErrTaken) || errors.Is(err, ErrFull) {
		return nil, skill.Refuse("%s", err)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"automationId": a.ID, "nextRunAt": a.NextRunAt}, nil
}

// uncreate deletes an automation that has not run yet.
func (s *Store) uncreate(ctx context.Context, tx *db.Tx, _, result json.RawMessage) (bool, error) {
	var was struct {
		ID string `json:"automationId"`
	}
	if json.Unmarshal(result, &was) != nil || was.ID == "" {
		return false, nil //nolint:nilerr // what can't be read is not taken back
	}
	n, err := tx.Exec(ctx, s.q.Uncreate, was.ID)
	if err != nil {
		return false, fmt.Errorf("take back automation %s: %w", was.ID, err)
	}
	return n > 0, nil
}
