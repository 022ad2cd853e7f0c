package api

import (
	"context"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/heal"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// healItem is one heal: self-healing disabled a skill after repeated failures.
type healItem struct {
	ID           string      `json:"id" format:"uuid"`
	Skill        string      `json:"skill"`
	Code         string      `json:"code" doc:"The class of its errors"`
	Failures     int         `json:"failures" doc:"In a row"`
	Automations  []string    `json:"automations" nullable:"false" doc:"The ids of those that were disabled with it"`
	Status       heal.Status `json:"status" enum:"active,probing,restored,undone,superseded" doc:"probing: its next call decides"`
	FailedProbes int         `json:"failedProbes"`
	ProbeAt      *time.Time  `json:"probeAt,omitempty" doc:"active: when it is tried again"`
	TraceID      trace.ID    `json:"traceId"`
	EndedBy      string      `json:"endedBy,omitempty"`
	CreatedAt    time.Time   `json:"createdAt"`
	UpdatedAt    time.Time   `json:"updatedAt"`
}

func healItemOf(h heal.Heal) healItem {
	item := healItem{
		ID: h.ID, Skill: h.Skill, Code: h.Code, Failures: h.Failures, Automations: append([]string{}, h.Automations...),
		Status: h.Status, FailedProbes: h.Probes, TraceID: h.Trace, EndedBy: h.EndedBy,
		CreatedAt: h.CreatedAt.UTC(), UpdatedAt: h.UpdatedAt.UTC(),
	}
	if h.Status == heal.Active {
		item.ProbeAt = utc(&h.ProbeAt)
	}
	return item
}

type healsInput struct {
	Status heal.Status `query:"status" enum:"active,probing,restored,undone,superseded"`
	Skill  string      `query:"skill" maxLength:"64"`
	Paging
}

// listHeals lists heals, newest first. It is called by the Engine Room.
func (s *server) listHeals(ctx context.Context, in *healsInput) (*answer[page[healItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Heals.List(ctx, workspace(ctx), heal.Filter{Status: in.Status, Skill: in.Skill, Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	found, more := db.Page(found, in.Limit)
	return newest(found, more, func(x heal.Heal) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} }, healItemOf), nil
}

// IDPath names a resource by its id.
type IDPath struct {
	ID string `path:"id" format:"uuid"`
}

// getHeal returns one heal. It is called by the Engine Room.
func (s *server) getHeal(ctx context.Context, in *IDPath) (*answer[healItem], error) {
	h, err := s.Heals.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return answered(healItemOf(h)), nil
}

type undoHealInput struct {
	IDPath
	Body *struct{}
}

// undoHeal enables the skill and the automations that a heal disabled. It is called by the Engine
// Room.
func (s *server) undoHeal(ctx context.Context, in *undoHealInput) (*answer[healItem], error) {
	by, _ := auth.From(ctx)
	var h heal.Heal
	var enabled int
	err := s.change(ctx, "heal.undo", func(ctx context.Context, tx *db.Tx) (err error) {
		h, enabled, err = s.Heals.Undo(ctx, tx, by.Workspace, in.ID, principal(by))
		return err
	}, "id", in.ID, "skill", &h.Skill, "automations", &enabled)
	if err != nil {
		return nil, err
	}
	return answered(healItemOf(h)), nil
}
