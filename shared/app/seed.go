package app

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/objective"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

//go:embed demo.json
var demoContent []byte

// demoObjective is an objective of the demo with the plan it may have already.
type demoObjective struct {
	ID            string `json:"id"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	DoneCriterion string `json:"done_criterion"`
	Priority      int    `json:"priority"`
	Steps         []struct {
		Title         string          `json:"title"`
		Skill         string          `json:"skill"`
		Inputs        json.RawMessage `json:"inputs"`
		DoneCriterion string          `json:"done_criterion"`
	} `json:"steps"`
}

// Seed makes the default workspace and, where demo says so, fills it with
// objectives that the first beats work on. Running it again changes nothing. It
// is called after the migrations, by functions/migrate and the local runner.
func Seed(ctx context.Context, core *Core, demo bool) error {
	workspaces, err1 := workspace.New(core.DB)
	objectives, err2 := objective.New(core.DB, core.IDs)
	lanes, err3 := lane.New(core.DB)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := workspaces.EnsureDefault(ctx); err != nil {
		return err
	}
	if !demo {
		return nil
	}
	var content []demoObjective
	if err := json.Unmarshal(demoContent, &content); err != nil {
		return fmt.Errorf("read the demo content: %w", err)
	}
	ctx = trace.With(ctx, core.Traces.New(trace.Operate))
	for _, o := range content {
		request := lane.Request{Workspace: workspace.Default, Lane: lane.Objective(o.ID), Holder: "seed"}
		err := lanes.Do(ctx, request, lane.Wait{}, func(ctx context.Context, hold *lane.Hold) error {
			return seedObjective(ctx, objectives, lanes, hold, o)
		})
		if err != nil {
			return fmt.Errorf("seed the demo: %w", err)
		}
	}
	return nil
}

func seedObjective(ctx context.Context, objectives *objective.Store, lanes *lane.Store, hold *lane.Hold, o demoObjective) error {
	if _, err := objectives.Get(ctx, hold.Workspace, o.ID); !errors.Is(err, db.ErrNoRows) {
		return err // it is there already, or the database failed
	}
	return lanes.InHold(ctx, hold, func(ctx context.Context, tx lane.Tx) error {
		objectives.Create(tx.Later(), objective.Objective{
			ID: o.ID, Title: o.Title, Description: o.Description, DoneCriterion: o.DoneCriterion, Priority: o.Priority, CreatedBy: "demo",
		})
		if len(o.Steps) == 0 {
			return nil
		}
		steps := make([]objective.Step, len(o.Steps))
		for i, st := range o.Steps {
			steps[i] = objective.Step{Title: st.Title, Skill: st.Skill, Inputs: st.Inputs, DoneCriterion: st.DoneCriterion}
		}
		_, err := objectives.Plan(ctx, tx, o.ID, steps)
		return err
	})
}
