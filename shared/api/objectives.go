package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/turn/telling"
)

// objectiveItem is an objective of the agent.
type objectiveItem struct {
	ID            string           `json:"id"`
	Title         string           `json:"title"`
	Description   string           `json:"description,omitempty"`
	Priority      int              `json:"priority"`
	DoneCriterion string           `json:"doneCriterion,omitempty"`
	Status        objective.Status `json:"status" enum:"active,paused,completed"`
	StatusReason  string           `json:"statusReason,omitempty"`
	PlanVersion   int              `json:"planVersion" doc:"0: there is no plan yet"`
	StepsTotal    int              `json:"stepsTotal" doc:"Steps of the present plan"`
	StepsDone     int              `json:"stepsDone"`
	NextStep      string           `json:"nextStep,omitempty" doc:"Title of the first step that is to be done; left out where a step has failed, since the plan is made anew"`
	Summary       string           `json:"summary,omitempty"`
	Outside       bool             `json:"outside" doc:"A run that had read text from outside wrote of it"`
	CreatedBy     string           `json:"createdBy"`
	CreatedAt     time.Time        `json:"createdAt"`
	UpdatedAt     time.Time        `json:"updatedAt"`
	CompletedAt   *time.Time       `json:"completedAt,omitempty"`
	Steps         []planStep       `json:"steps,omitempty" doc:"Of the present plan; only of a single objective"`
}

// planStep is one step of a plan.
type planStep struct {
	Number        int                  `json:"number"`
	Title         string               `json:"title"`
	Skill         string               `json:"skill,omitempty"`
	Inputs        json.RawMessage      `json:"inputs,omitempty"`
	DoneCriterion string               `json:"doneCriterion,omitempty"`
	Status        objective.StepStatus `json:"status" enum:"pending,done,failed"`
	Attempts      int                  `json:"attempts"`
	Result        string               `json:"result,omitempty"`
	ExecutionID   string               `json:"executionId,omitempty"`
	EndedAt       *time.Time           `json:"endedAt,omitempty"`
}

func objectiveOf(o objective.Objective) objectiveItem {
	item := objectiveItem{
		ID: o.ID, Title: o.Title, Description: o.Description, Priority: o.Priority, DoneCriterion: o.DoneCriterion,
		Status: o.Status, StatusReason: o.StatusReason, PlanVersion: o.PlanVersion,
		StepsTotal: o.Progress.Steps, StepsDone: o.Progress.Done, NextStep: o.Progress.Next, Summary: o.Summary,
		Outside: o.Untrusted, CreatedBy: o.CreatedBy,
		CreatedAt: o.CreatedAt.UTC(), UpdatedAt: o.UpdatedAt.UTC(), CompletedAt: utc(o.CompletedAt),
	}
	for _, st := range o.Plan {
		item.Steps = append(item.Steps, planStep{
			Number: st.Number, Title: st.Title, Skill: st.Skill, Inputs: st.Inputs, DoneCriterion: st.DoneCriterion,
			Status: st.Status, Attempts: st.Attempts, Result: st.Result, ExecutionID: st.Execution, EndedAt: utc(st.EndedAt),
		})
	}
	return item
}

// versioned is a response with one resource. Its ETag is the resource's version, for If-Match.
type versioned[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// createdAt is the response of a route that has created a versioned resource at Location.
type createdAt[T any] struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     T
}

// tagOf returns the ETag of a version.
func tagOf(version int) string { return `"` + strconv.Itoa(version) + `"` }

// IfMatch names the version that a request wants to change.
type IfMatch struct {
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"The ETag of what is to be changed, or several with commas between; without it, or with *, of what is there"`
}

// matches returns stale if version is not one of the named versions.
func (m IfMatch) matches(version int) error { return m.matchesTag(tagOf(version)) }

func (m IfMatch) matchesTag(present string) error {
	for tag := range strings.SplitSeq(m.IfMatch, ",") {
		if tag = strings.TrimSpace(tag); tag == present || tag == "*" {
			return nil
		}
	}
	if m.IfMatch == "" {
		return nil
	}
	return stale
}

// objectiveTag returns an objective's ETag. It includes the time of the last update, because
// heartbeats change an objective without a new version.
func objectiveTag(o objective.Objective) string {
	return fmt.Sprintf(`"%d-%d"`, o.Version, o.UpdatedAt.UnixMicro())
}

func objectiveOutput(o objective.Objective) *versioned[objectiveItem] {
	return &versioned[objectiveItem]{ETag: objectiveTag(o), Body: objectiveOf(o)}
}

// listObjectives lists objectives, newest first. It is called by the Engine Room and by scripts.
func (s *server) listObjectives(ctx context.Context, in *struct {
	Status      objective.Status `query:"status" enum:"active,paused,completed"`
	MinPriority int              `query:"minPriority" minimum:"1" maximum:"10"`
	Q           string           `query:"q" maxLength:"200" doc:"Part of the title or the description"`
	Paging
}) (*answer[page[objectiveItem]], error) {
	before, err := position(in.Cursor)
	if err != nil {
		return nil, err
	}
	f := objective.Filter{Status: in.Status, MinPriority: in.MinPriority, Text: in.Q, Before: before, Limit: in.Limit}
	found, more, err := s.Objectives.List(ctx, workspace(ctx), f)
	if err != nil {
		return nil, err
	}
	return newest(found, more, func(x objective.Objective) db.Position { return db.Position{At: x.CreatedAt, ID: x.ID} }, objectiveOf), nil
}

// getObjective returns one objective with its plan. It is called by the Engine Room and by scripts.
func (s *server) getObjective(ctx context.Context, in *IDPath) (*versioned[objectiveItem], error) {
	o, err := s.Objectives.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return objectiveOutput(o), nil
}

// createObjective creates an objective. It is called by the Engine Room and by scripts.
func (s *server) createObjective(ctx context.Context, in *struct {
	Body struct {
		Title         string `json:"title" minLength:"1" maxLength:"255"`
		Description   string `json:"description,omitempty" maxLength:"8000"`
		Priority      int    `json:"priority,omitempty" minimum:"1" maximum:"10" default:"5" doc:"10 comes first"`
		DoneCriterion string `json:"doneCriterion,omitempty" maxLength:"2000" doc:"How one sees that it is reached"`
	}
}) (*createdAt[objectiveItem], error) {
	by, _ := auth.From(ctx)
	o := objective.Objective{
		ID: s.newID(ctx), Title: in.Body.Title, Description: in.Body.Description, Priority: in.Body.Priority,
		DoneCriterion: in.Body.DoneCriterion, CreatedBy: principal(by),
	}
	err := s.change(ctx, "objective.create", func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = s.objectives().Create(ctx, tx, o)
		return err
	}, "title", in.Body.Title)
	if o, err = before(ctx, o, err, s.Objectives.Get); err != nil {
		return nil, err
	}
	return &createdAt[objectiveItem]{"/api/v1/objectives/" + o.ID, objectiveTag(o), objectiveOf(o)}, nil
}

// objectives returns the operations that people perform on objectives.
func (s *server) objectives() *objective.Admin {
	return objective.NewAdmin(s.Objectives, s.Lanes, s.Runs, s.Threads.Release)
}

// patchObjective changes the given fields of an objective. It is called by the Engine Room and by
// scripts.
func (s *server) patchObjective(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		Title         *string `json:"title,omitempty" minLength:"1" maxLength:"255"`
		Description   *string `json:"description,omitempty" maxLength:"8000"`
		Priority      *int    `json:"priority,omitempty" minimum:"1" maximum:"10"`
		DoneCriterion *string `json:"doneCriterion,omitempty" maxLength:"2000"`
	}
}) (*versioned[objectiveItem], error) {
	p := objective.Patch{Title: in.Body.Title, Description: in.Body.Description, Priority: in.Body.Priority,
		DoneCriterion: in.Body.DoneCriterion}
	return s.editObjective(ctx, "objective.update", in.ID, in.IfMatch, func(ctx context.Context, tx *db.Tx, o objective.Objective) (objective.Objective, error) {
		return s.objectives().Patch(ctx, tx, o, p)
	})
}

// editObjective changes an objective that is still the one that the caller has read.
func (s *server) editObjective(ctx context.Context, what, id string, match IfMatch,
	edit func(context.Context, *db.Tx, objective.Objective) (objective.Objective, error), about ...any) (*versioned[objectiveItem], error) {
	o, err := s.Objectives.Get(ctx, workspace(ctx), id)
	if err == nil {
		err = match.matchesTag(objectiveTag(o))
	}
	if err != nil {
		return nil, err
	}
	err = s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = edit(ctx, tx, o)
		return err
	}, append([]any{"objective", id}, about...)...)
	if err != nil {
		return nil, err
	}
	return objectiveOutput(o), nil
}

// replaceSteps replaces the plan of an objective. It is called by the Engine Room.
func (s *server) replaceSteps(ctx context.Context, in *struct {
	IDPath
	IfMatch
	Body struct {
		Steps []struct {
			Title         string    `json:"title" minLength:"1" maxLength:"255"`
			Skill         string    `json:"skill,omitempty" maxLength:"255"`
			Inputs        givenJSON `json:"inputs,omitempty" doc:"What the skill gets: an object"`
			DoneCriterion string    `json:"doneCriterion,omitempty" maxLength:"2000"`
		} `json:"steps" minItems:"1" maxItems:"30"`
	}
}) (*versioned[objectiveItem], error) {
	steps := make([]objective.Step, len(in.Body.Steps))
	for i, st := range in.Body.Steps {
		steps[i] = objective.Step{Title: st.Title, Skill: st.Skill, Inputs: json.RawMessage(st.Inputs), DoneCriterion: st.DoneCriterion}
	}
	return s.editObjective(ctx, "objective.plan", in.ID, in.IfMatch, func(ctx context.Context, tx *db.Tx, o objective.Objective) (objective.Objective, error) {
		return s.objectives().ReplaceSteps(ctx, tx, o, steps)
	}, "steps", len(steps))
}

// listSteps lists the steps of an objective's plan in order. It is called by the Engine Room and by
// scripts.
func (s *server) listSteps(ctx context.Context, in *struct {
	IDPath
	Paging
}) (*answer[page[planStep]], error) {
	o, err := s.Objectives.Get(ctx, workspace(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	steps := objectiveOf(o).Steps
	if steps == nil {
		steps = []planStep{}
	}
	return slicePage(steps, in.Cursor, in.Limit)
}

// become changes the status of an objective. If the objective is no longer active, become also asks
// the execution that works on it to stop, in the background.
func (s *server) become(
	ctx context.Context, what, id, why string, change func(context.Context, *db.Tx) (objective.Objective, error),
) (*versioned[objectiveItem], error) {
	var o objective.Objective
	err := s.change(ctx, what, func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = change(ctx, tx)
		return err
	}, "objective", id, "reason", why)
	if err != nil {
		return nil, err
	}
	if by, _ := auth.From(ctx); o.Status != objective.Active {
		s.Background(func(ctx context.Context) { // it may have to wait for a transaction under the objective's lane
			ctx, cancel := context.WithTimeout(ctx, telling.Longest)
			defer cancel()
			if err := s.objectives().Interrupt(ctx, by.Workspace, id, principal(by)); err != nil {
				s.Log.WarnContext(ctx, "who works on an objective was not asked to stop", "objective", id, "error", err)
			}
		})
	}
	return objectiveOutput(o), nil
}

// pauseObjective pauses an objective. It is called by the Engine Room and by scripts.
func (s *server) pauseObjective(ctx context.Context, in *struct {
	IDPath
	Body *struct {
		Reason string `json:"reason,omitempty" minLength:"1" maxLength:"500"`
	}
}) (*versioned[objectiveItem], error) {
	reason := "paused by hand"
	if in.Body != nil {
		reason = cmp.Or(in.Body.Reason, reason)
	}
	return s.become(ctx, "objective.pause", in.ID, reason, func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return s.objectives().Pause(ctx, tx, in.ID, reason)
	})
}

// resumeObjective makes a paused objective active. It is called by the Engine Room and by scripts.
func (s *server) resumeObjective(ctx context.Context, in *struct {
	IDPath
	Body *struct{}
}) (*versioned[objectiveItem], error) {
	return s.become(ctx, "objective.resume", in.ID, "", func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return s.objectives().Resume(ctx, tx, in.ID)
	})
}

// deleteObjective deletes an objective with its plan. It is called by the Engine Room and by
// scripts.
func (s *server) deleteObjective(ctx context.Context, in *IDPath) (*struct{}, error) {
	return nil, s.change(ctx, "objective.delete", func(ctx context.Context, tx *db.Tx) error {
		if err := s.objectives().Delete(ctx, tx, in.ID); err != nil {
			return err
		}
		by, _ := auth.From(ctx)
		return s.Approvals.RejectFor(ctx, tx, lane.Objective(in.ID), principal(by), "the objective was deleted")
	}, "objective", in.ID)
}

// completeObjective ends an objective as completed. It is called by the Engine Room and by scripts.
func (s *server) completeObjective(ctx context.Context, in *struct {
	IDPath
	Body *struct {
		Summary string `json:"summary,omitempty" maxLength:"8000"`
	}
}) (*versioned[objectiveItem], error) {
	summary := ""
	if in.Body != nil {
		summary = in.Body.Summary
	}
	return s.become(ctx, "objective.complete", in.ID, "", func(ctx context.Context, tx *db.Tx) (objective.Objective, error) {
		return s.objectives().Complete(ctx, tx, in.ID, summary)
	})
}
