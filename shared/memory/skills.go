package memory

import (
	"context"
	"embed"
	"encoding/json"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

//go:embed *.md
var texts embed.FS

// Skills are the built-in skills on memories. now is the clock that expiry
// counts from.
func Skills(s *Store, now func() time.Time) ([]skill.Skill, error) {
	save, err := skill.Define(texts, "save_memory", skill.Skill{
		Scope: skill.Both,
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
			if args.Days > 0 {
				end := now().AddDate(0, 0, args.Days)
				m.ExpiresAt = &end
			}
			id, isNew, err := s.Save(ctx, tx, m)
			if err != nil {
				return nil, err
			}
			return map[string]any{"memory_id": id, "new": isNew}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return []skill.Skill{save}, nil
}
