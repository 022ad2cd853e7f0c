package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Used counts the calls of a skill.
type Used struct {
	Skill     string `json:"skill"`
	Calls     int    `json:"calls"`
	Failures  int    `json:"failures"`
	AverageMS int64  `json:"averageMs"`
}

// maxUsed is the largest number of skills that are counted.
const maxUsed = 100

// Used counts the calls of each skill since a time, most used first.
func (l *Log) Used(ctx context.Context, ws db.Workspace, since time.Time) ([]Used, error) {
	out := []Used{}
	err := l.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, u *Used) error {
		return scan(&u.Skill, &u.Calls, &u.Failures, &u.AverageMS)
	}), l.q.Used, since, maxUsed)
	if err != nil {
		return nil, fmt.Errorf("count the calls of skills: %w", err)
	}
	return out, nil
}
