package objective

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

//go:embed *.md
var texts embed.FS

// Skills returns the built-in skills on objectives.
func Skills(s *Store) ([]skill.Skill, error) {
	var out []skill.Skill
	var errs []error
	define := func(name string, k skill.Skill) {
		k, err := skill.Define(texts, name, k)
		out, errs = append(out, k), append(errs, err)
	}
	define("set_objective", skill.Skill{Run: s.runSet, Undo: s.unset})
	define("plan_objective", skill.Skill{Run: s.runPlan, Lanes: named, Undo: s.gone})
	define("advance_plan", skill.Skill{Run: s.runAdvance, Lanes: named, Undo: s.gone})
	define("complete_objective", skill.Skill{Run: s.runComplete, Lanes: named, Undo: s.gone})
	return out, errors.Join(errs...)
}

// named returns the lane of the objective that a call names.
func named(c skill.Call) []lane.Name {
	id, ok := idIn(c.Arguments)
	if !ok {
		return nil
	}
	return []lane.Name{lane.Objective(id)}
}

func (s *Store) runSet(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	args := struct {
		Title         string `json:"title"`
		Description   string `json:"description"`
		Priority      int    `json:"priority"`
		DoneCriterion string `json:"doneCriterion"`
	}{Priority: 5}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	o := Objective{
		Title: args.Title, Description: args.Description, Priority: args.Priority, DoneCriterion: args.DoneCriterion,
		CreatedBy: cmp.Or(c.By, c.Agent), Untrusted: c.Untrusted,
	}
	o.discreet(ctx)
	id := s.Create(tx.Later(), o)
	return map[string]any{"objectiveId": id}, nil
}

// unset deletes an objective, with its plan, if nobody has worked on it.
func (s *Store) unset(ctx context.Context, tx *db.Tx, _, result json.RawMessage) (bool, error) {
	id, ok := idIn(result)
	if !ok {
		return false, nil
	}
	n, err := tx.Exec(ctx, s.q.Unset, id)
	if err != nil {
		return false, fmt.Errorf("take back objective %s: %w", id, err)
	}
	return n > 0, nil
}

// gone reports whether the objective of a call was deleted as a whole.
func (s *Store) gone(ctx context.Context, tx *db.Tx, arguments, _ json.RawMessage) (gone bool, err error) {
	id, ok := idIn(arguments)
	if !ok {
		return false, nil
	}
	return gone, tx.One(ctx, []any{&gone}, s.q.Gone, id)
}

// idIn returns the objective's id that arguments or a result contain, in canonical spelling. Lane
// names are compared as text.
func idIn(raw json.RawMessage) (string, bool) {
	var named struct {
		ObjectiveID *uuid.UUID `json:"objectiveId"`
	}
	if json.Unmarshal(raw, &named) != nil || named.ObjectiveID == nil {
		return "", false
	}
	return named.ObjectiveID.String(), true
}

func (s *Store) runPlan(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	var args struct {
		ObjectiveID uuid.UUID `json:"objectiveId"`
		Steps       []struct {
			Title         string          `json:"title"`
			Skill         string          `json:"skill"`
			Inputs        json.RawMessage `json:"inputs"`
			DoneCriterion string          `json:"doneCriterion"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	steps := make([]Step, len(args.Steps))
	for i, st := range args.Steps {
		steps[i] = Step{Title: st.Title, Skill: st.Skill, Inputs: st.Inputs, DoneCriterion: st.DoneCriterion}
	}
	s.distrust(tx, c, args.ObjectiveID)
	version, err := s.Plan(ctx, tx, args.ObjectiveID.String(), steps)
	if err != nil {
		return nil, refused(err)
	}
	return map[string]any{"planVersion": version, "steps": len(steps)}, nil
}

func (s *Store) runAdvance(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	var args struct {
		ObjectiveID uuid.UUID `json:"objectiveId"`
		Step        int       `json:"step"`
		Result      string    `json:"result"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	s.distrust(tx, c, args.ObjectiveID)
	if err := s.EndStep(ctx, tx, args.ObjectiveID.String(), args.Step, Done, args.Result); err != nil {
		return nil, refused(err)
	}
	return map[string]any{"step": args.Step, "status": Done}, nil
}

func (s *Store) runComplete(ctx context.Context, tx lane.Tx, c skill.Call) (any, error) {
	var args struct {
		ObjectiveID uuid.UUID `json:"objectiveId"`
		Summary     string    `json:"summary"`
	}
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		return nil, skill.Refuse("the arguments could not be read")
	}
	open, err := s.openSteps(ctx, tx, args.ObjectiveID.String())
	if err != nil {
		return nil, err
	}
	if open > 0 {
		return nil, skill.Refuse("%d steps of the plan are still open: advance them first, or plan anew", open)
	}
	if err := s.Complete(ctx, tx, args.ObjectiveID.String(), args.Summary); err != nil {
		return nil, refused(err)
	}
	return map[string]any{"status": Completed}, nil
}

// distrust records that an execution that had read untrusted text writes about the objective. Later
// executions treat it as untrusted.
func (s *Store) distrust(tx lane.Tx, c skill.Call, id uuid.UUID) {
	if c.Untrusted {
		tx.Later().Exec(s.q.Distrust, id.String())
	}
}

func (s *Store) openSteps(ctx context.Context, tx lane.Tx, id string) (n int, err error) {
	return n, tx.One(ctx, []any{&n}, s.q.Open, id)
}

// refused converts errors that the model can correct to a [skill.RefusalError].
func refused(err error) error {
	for _, mendable := range []error{ErrNotActive, ErrNotPending} {
		if errors.Is(err, mendable) {
			return skill.Refuse("%v", mendable)
		}
	}
	return err
}
